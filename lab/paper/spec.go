package paper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrSpec is wrapped by the errors of an invalid Spec or plan.
var ErrSpec = errors.New("paper: invalid run")

// The data sets, by the names that a Spec takes.
const (
	SST2          = "sst2"           // with the paper's number of bags
	SST2Max       = "sst2-max"       // as many bags as the sentences allow at that sigma_micro
	Sentiment140  = "sentiment140"   // tweets
	IMDB          = "imdb"           // whole reviews as instances, as in the paper
	Amazon        = "amazon"         // whole reviews as instances, as in the paper
	IMDBSentences = "imdb-sentences" // real bags: a review is a bag, its sentences are the instances
)

// Datasets lists the names of the data sets in the order of the report.
func Datasets() []string {
	return []string{SST2, SST2Max, Sentiment140, IMDB, Amazon, IMDBSentences}
}

// knownDataset accepts the names of Datasets and FilesPrefix with a name.
func knownDataset(name string) bool {
	files, ok := strings.CutPrefix(name, FilesPrefix)
	return slices.Contains(Datasets(), name) || ok && oneWord(files)
}

// Spec is one run: a method trained on the bags of one seed and measured on the test bags of that seed.
type Spec struct {
	Dataset    string   `json:"dataset"`           // one of Datasets, or FilesPrefix and a name
	SigmaMicro int      `json:"sigma_micro"`       // normal instances for each anomalous one in an anomalous bag; 0 for real bags
	SigmaMacro int      `json:"sigma_macro"`       // normal bags for each anomalous one in training; 0 for real bags
	Method     string   `json:"method"`            // one of Methods, perhaps with "+pl+adt", or "llm:NAME"
	Settings   Settings `json:"settings,omitzero"` // options of the method; nil for none
	Backbone   string   `json:"backbone"`          // name of the checkpoint that training initializes from
	Rate       float64  `json:"rate"`              // peak learning rate
	Epochs     int      `json:"epochs"`            //
	Batch      int      `json:"batch"`             // instances (for the macro methods: bags) of a mini-batch
	Seed       uint64   `json:"seed"`              // of the bags, of shuffling and of the randomly initialized classification head
	Bags       int      `json:"bags,omitzero"`     // maximum training bags of the anomalous class; 0: that of the protocol
}

// Settings are the options of a method, by the names of the flags of assay train without leading dashes: "weights", "loss", "pseudo-from", "threshold" and so on.
type Settings map[string]string

// String lists the settings as name=value, by name, separated by spaces.
func (s Settings) String() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(s)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + s[name])
	}
	return b.String()
}

// With returns a copy in which other's settings replace those of the same name.
func (s Settings) With(other Settings) Settings {
	out := Settings{}
	maps.Copy(out, s)
	maps.Copy(out, other)
	return out
}

// ParseSettings parses the result of String; it also accepts commas as separators.
func ParseSettings(text string) (Settings, error) {
	s := Settings{}
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		name, value, ok := strings.Cut(field, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%w: setting %q; write name=value", ErrSpec, field)
		}
		s[name] = value
	}
	return s, nil
}

// Key identifies the run: two specs with the same key are the same run. It is readable and stable across versions.
func (s Spec) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s micro=%d macro=%d %s", s.Dataset, s.SigmaMicro, s.SigmaMacro, s.Method)
	if len(s.Settings) > 0 {
		fmt.Fprintf(&b, " [%s]", s.Settings)
	}
	fmt.Fprintf(&b, " %s lr=%s epochs=%d batch=%d", s.Backbone, strconv.FormatFloat(s.Rate, 'g', -1, 64), s.Epochs, s.Batch)
	if s.Bags > 0 {
		fmt.Fprintf(&b, " bags=%d", s.Bags)
	}
	fmt.Fprintf(&b, " seed=%d", s.Seed)
	return b.String()
}

// Validate names the first field that is out of range. The error wraps ErrSpec.
func (s Spec) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSpec}, args...)...)
	}
	natural := s.Dataset == IMDBSentences
	switch {
	case !knownDataset(s.Dataset):
		return wrong("dataset is %q; use one of %s, or %sNAME", s.Dataset, strings.Join(Datasets(), ", "), FilesPrefix)
	case natural && (s.SigmaMicro != 0 || s.SigmaMacro != 0):
		return wrong("sigma_micro and sigma_macro are %d and %d; %s has real bags, use 0", s.SigmaMicro, s.SigmaMacro, s.Dataset)
	case !natural && s.SigmaMicro < 1:
		return wrong("sigma_micro is %d; use at least 1", s.SigmaMicro)
	case !natural && s.SigmaMacro < 1:
		return wrong("sigma_macro is %d; use at least 1", s.SigmaMacro)
	case !knownMethod(s.Method):
		return wrong("method is %q; use one of %s", s.Method, strings.Join(Methods(), ", "))
	case !oneWord(s.Backbone) && !s.Judge():
		return wrong("backbone is %q; give its name, without spaces or brackets", s.Backbone)
	case !s.Judge() && !(s.Rate > 0 && s.Rate <= 1):
		return wrong("rate is %v; use a learning rate in (0,1]", s.Rate)
	case !s.Judge() && (s.Epochs < 1 || s.Batch < 1):
		return wrong("epochs is %d and batch %d; use positive numbers", s.Epochs, s.Batch)
	case s.Bags < 0:
		return wrong("bags is %d; use 0 (all) or a positive number", s.Bags)
	}
	for name, value := range s.Settings {
		if !oneWord(name) || !oneWord(value) {
			return wrong("setting %q is %q; both must be words without spaces, commas, brackets or \"=\"", name, value)
		}
	}
	return nil
}

// oneWord keeps keys unambiguous.
func oneWord(s string) bool { return s != "" && !strings.ContainsAny(s, " ,=[]\t\r\n") }

// difference lists the settings of a run that are not the defaults of its method; a default that is absent shows as
// name=- so that nothing is hidden.
func difference(s Spec) string {
	defaults, out := DefaultSettings(s.Method), Settings{}
	maps.Copy(out, s.Settings)
	for name, value := range defaults {
		switch set, ok := out[name]; {
		case !ok:
			out[name] = "-"
		case set == value:
			delete(out, name)
		}
	}
	return out.String()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
