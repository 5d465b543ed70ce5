package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// The metrics of a service that several benchmarks read.
const (
	MetricCPU        = "process_cpu_seconds_total"
	MetricTokens     = "assay_batch_tokens_sum"
	MetricGoroutines = "go_goroutines"
	MetricFiles      = "process_open_fds"
)

// MetricSums sums each of the named metrics of a service over its labels.
func MetricSums(ctx context.Context, base string, names ...string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL, res.Status)
	}
	sums := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Bytes()
		end := bytes.IndexAny(line, "{ ")
		if end < 0 {
			continue
		}
		for _, name := range names {
			if string(line[:end]) == name {
				value, err := strconv.ParseFloat(string(line[bytes.LastIndexByte(line, ' ')+1:]), 64)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", req.URL, name, err)
				}
				sums[name] += value
			}
		}
	}
	for _, name := range names {
		if _, ok := sums[name]; !ok {
			return nil, fmt.Errorf("%s has no metric %s; is it assay?", req.URL, name)
		}
	}
	return sums, nil
}
