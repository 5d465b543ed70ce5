package reference

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// descriptor matches the text of a prometheus.Desc, which does not export its parts.
var descriptor = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)

// Metrics returns the page of the metrics of registry. A metric without a series is a counter if its name ends in
// _total; otherwise it is an error: create a series first.
func Metrics(registry *prometheus.Registry) (string, error) {
	types := map[string]string{}
	families, err := registry.Gather()
	if err != nil {
		return "", err
	}
	for _, family := range families {
		types[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	var rows [][]string
	for desc := range descs {
		parts := descriptor.FindStringSubmatch(desc.String())
		if parts == nil {
			err = cmp.Or(err, fmt.Errorf("%s: a descriptor that cannot be read", desc))
			continue
		}
		name, labels := parts[1], []string(nil)
		for label := range strings.SplitSeq(parts[3], ",") {
			labels = append(labels, code(label))
		}
		kind := types[name]
		if kind == "" && strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		if kind == "" {
			err = cmp.Or(err, fmt.Errorf("%s has no series that shows its type", name))
		}
		rows = append(rows, []string{code(name), kind, strings.Join(labels, ", "), prose(parts[2])})
	}
	if err != nil {
		return "", err
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	p := newPage("Metrics", "the registry of a running service")
	p.paragraph("`GET /metrics` of a service returns these metrics in the text format of Prometheus, and those of the Go " +
		"runtime and of the process (`go_*`, `process_*`). `--ops-listen` serves them on an address of their own. " +
		"Metrics of gRPC need `--grpc-listen`; those of NATS, feedback and drift need NATS; those of training need NATS and a " +
		"process that trains. `assay trainer --ops-listen` returns those of HTTP, NATS, feedback and training.")
	p.paragraph("A histogram has the series `NAME_bucket` (label `le`), `NAME_sum` and `NAME_count`. A metric with labels " +
		"appears with its first series. The unit is at the end of the name; counters end in `_total`.")
	p.table([]string{"metric", "type", "labels", "meaning"}, rows)
	return p.String(), nil
}
