package paper

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Block is a part of a plan: the runs of all its data sets, imbalances, methods, settings and seeds with each other.
// Seeds vary slowest, then data sets, sigma_macro, sigma_micro, methods and settings, so that the first seed of all
// comes before the second of any.
type Block struct {
	Datasets   []string `yaml:"datasets"`
	SigmaMicro []int    `yaml:"sigma-micro"` // ignored for data sets of real bags
	SigmaMacro []int    `yaml:"sigma-macro"` // likewise; none: 1
	Methods    []string `yaml:"methods"`
	Settings   []string `yaml:"settings"` // each "name=value ..." in addition to the method's; none: the method's
	Seeds      []uint64 `yaml:"seeds"`    // none: 0
	Rate       float64  `yaml:"rate"`     // 0: the paper's 1e-5
	Epochs     int      `yaml:"epochs"`   // 0: the paper's 5
	Batch      int      `yaml:"batch"`    // 0: the paper's 16
	Bags       int      `yaml:"bags"`     // maximum training bags of the anomalous class; 0: that of the protocol
}

// Options apply to all blocks of a plan.
type Options struct {
	Backbone string // name of the checkpoint

	// Override the values of the blocks; 0 keeps those.
	Rate          float64
	Epochs, Batch int

	// Filters of the runs; an empty list keeps all.
	Datasets, Methods      []string
	SigmaMicro, SigmaMacro []int
	Seeds                  []uint64
}

// Plan returns the runs of the blocks in their order, each once. The error wraps ErrSpec and names the invalid field.
func Plan(blocks []Block, o Options) ([]Spec, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var plan []Spec
	seen := map[string]bool{}
	for i, block := range blocks {
		specs, err := block.specs(o)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", i+1, err)
		}
		for _, s := range specs {
			if key := s.Key(); o.keeps(s) && !seen[key] {
				seen[key] = true
				plan = append(plan, s)
			}
		}
	}
	return plan, nil
}

func (b Block) specs(o Options) ([]Spec, error) {
	if len(b.Datasets) == 0 || len(b.Methods) == 0 {
		return nil, fmt.Errorf("%w: datasets and methods must not be empty", ErrSpec)
	}
	extras := make([]Settings, max(len(b.Settings), 1))
	for i, text := range b.Settings {
		var err error
		if extras[i], err = ParseSettings(text); err != nil {
			return nil, err
		}
	}
	var specs []Spec
	for _, seed := range orDefault(b.Seeds, 0) {
		for _, dataset := range b.Datasets {
			micros, macros := b.SigmaMicro, orDefault(b.SigmaMacro, 1)
			if dataset == IMDBSentences {
				micros, macros = []int{0}, []int{0}
			}
			for _, macro := range macros {
				for _, micro := range micros {
					for _, method := range b.Methods {
						for _, extra := range extras {
							specs = append(specs, Spec{
								Dataset: dataset, SigmaMicro: micro, SigmaMacro: macro, Method: method,
								Settings: settingsFor(method, extra), Seed: seed,
								Backbone: o.Backbone, Rate: b.Rate, Epochs: b.Epochs, Batch: b.Batch, Bags: b.Bags,
							}.complete(o))
						}
					}
				}
			}
		}
	}
	for _, s := range specs {
		if err := s.Validate(); err != nil {
			return nil, err
		}
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("%w: sigma-micro must not be empty", ErrSpec)
	}
	return specs, nil
}

// settingsFor returns nil rather than an empty map, so that equal specs compare equal.
func settingsFor(method string, extra Settings) Settings {
	if s := DefaultSettings(method).With(extra); len(s) > 0 {
		return s
	}
	return nil
}

// complete applies overrides and defaults. A judge has no training settings.
func (s Spec) complete(o Options) Spec {
	if s.Judge() {
		s.Rate, s.Epochs, s.Batch, s.Backbone, s.Bags = 0, 0, 0, "", 0
		return s
	}
	s.Rate, s.Epochs, s.Batch = cmp.Or(o.Rate, s.Rate, 1e-5), cmp.Or(o.Epochs, s.Epochs, 5), cmp.Or(o.Batch, s.Batch, 16)
	return s
}

func (o Options) keeps(s Spec) bool {
	return keeps(o.Datasets, s.Dataset) && keeps(o.Methods, s.Method) && keeps(o.Seeds, s.Seed) &&
		(s.SigmaMicro == 0 || keeps(o.SigmaMicro, s.SigmaMicro)) && (s.SigmaMacro == 0 || keeps(o.SigmaMacro, s.SigmaMacro))
}

func keeps[T comparable](list []T, v T) bool { return len(list) == 0 || slices.Contains(list, v) }

func orDefault[T any](list []T, v T) []T {
	if len(list) == 0 {
		return []T{v}
	}
	return list
}

func (o Options) validate() error {
	for _, dataset := range o.Datasets {
		if !knownDataset(dataset) {
			return fmt.Errorf("%w: dataset is %q; use one of %s, or %sNAME", ErrSpec, dataset, strings.Join(Datasets(), ", "), FilesPrefix)
		}
	}
	for _, method := range o.Methods {
		if !knownMethod(method) {
			return fmt.Errorf("%w: method is %q; use one of %s, or llm:NAME", ErrSpec, method, strings.Join(Methods(), ", "))
		}
	}
	return nil
}

// ReadBlocks reads a plan file: YAML with the list "runs", whose elements are Blocks.
func ReadBlocks(path string) ([]Block, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("paper: plan: %w", err)
	}
	defer f.Close()
	var file struct {
		Runs []Block `yaml:"runs"`
	}
	if err := yaml.NewDecoder(f, yaml.Strict()).Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s: %w", ErrSpec, path, err)
	}
	if len(file.Runs) == 0 {
		return nil, fmt.Errorf("%w: %s: no runs; add a list named runs", ErrSpec, path)
	}
	return file.Runs, nil
}
