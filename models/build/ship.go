package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/rewardmodel/checkpoint"
)

const baseDescription = "all-MiniLM-L6-v2 with emoji in its vocabulary"

// regressionSet is the bag file that "assay train" copies to the models that it trains.
const regressionSet = "regression.jsonl"

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// shipped are the metrics of `assay eval` on the test sets that go into assay.json, by source.
var shipped = map[string][]string{
	pairs:          {"bag_auroc"},
	written:        {"bag_auroc", "witness_hit1"},
	document:       {"bag_auroc", "witness_hit1"},
	conversation:   {"bag_auroc"},
	toxicSpans:     {"witness_hit1", "instance_auroc"},
	convAbuse:      {"bag_auroc"},
	diaSafety:      {"bag_auroc"},
	hateOffensive:  {"bag_auroc"},
	gptFuzz:        {"bag_auroc"},
	jailbreakBench: {"bag_auroc"},
	edos:           {"bag_auroc"},
	hatemoji:       {"bag_auroc"},
	toxiGen:        {"bag_auroc"},
	hh:             {"bag_auroc"},
	xsTest:         {"bag_auroc"},
}

// ship copies the trained checkpoint to out, with its origin and its metrics in assay.json. The model card, the policy and
// the regression set in out do not change.
func ship(cfg config, log io.Writer) error {
	trained, err := checkpoint.Open(filepath.Join(cfg.work, "trained"))
	if err != nil {
		return err
	}
	defer trained.Close()
	man := *trained.Manifest
	man.Base, man.Data, man.Metrics = baseDescription, []string{toxicSpans, diaSafety, convAbuse, hateOffensive, gptFuzz, jailbreakBench, edos, hatemoji, toxiGen, "models/build/corpus"}, map[string]float64{}
	for set, names := range shipped {
		if err := readMetrics(filepath.Join(cfg.work, "test-"+set+"-metrics.json"), set, names, man.Metrics); err != nil {
			return err
		}
	}
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(trained.Config, true) {
		t, err := trained.Tensor(spec.Name)
		if err != nil {
			return err
		}
		tensors = append(tensors, t)
	}
	files, err := checkpoint.TokenizerFiles(trained.Dir)
	if err != nil {
		return err
	}
	// The regression set does not change: every model that is trained from this one is evaluated on it.
	if path := filepath.Join(cfg.out, regressionSet); isFile(path) {
		files = append(files, path)
	}
	// What people write about the model is not part of the checkpoint, because a checksum would not allow edits.
	kept := map[string][]byte{"README.md": nil, "policy.md": nil}
	for name := range kept {
		if kept[name], err = os.ReadFile(filepath.Join(cfg.out, name)); err != nil {
			return fmt.Errorf("the model card and the policy: %w", err)
		}
	}
	if err := checkpoint.Write(cfg.out, trained.Config, man, tensors, files...); err != nil {
		return err
	}
	for name, text := range kept {
		if err := os.WriteFile(filepath.Join(cfg.out, name), text, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "shipped %s to %s; update the metrics in its model card\n", man.Version, cfg.out)
	return nil
}

// readMetrics adds the named metrics of a report of `assay eval` to metrics, as "set.name".
func readMetrics(file, set string, names []string, metrics map[string]float64) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w; run assay eval first (make model does)", err)
	}
	var report map[string]json.RawMessage
	if err := json.Unmarshal(data, &report); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range names {
		var value float64
		if err := json.Unmarshal(report[name], &value); err != nil {
			return fmt.Errorf("%s: %s: %w", file, name, err)
		}
		metrics[set+"."+name] = value
	}
	return nil
}
