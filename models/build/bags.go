package main

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"assay/internal/durable"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

// writeBags writes train.jsonl and one eval-SOURCE.jsonl per set to the work
// directory and logs their composition.
func writeBags(cfg config, log io.Writer) error {
	c, err := readCorpus(cfg.data)
	if err != nil {
		return err
	}
	bags, err := mix(c, cfg.seed)
	if err != nil {
		return err
	}
	path := filepath.Join(cfg.work, "train.jsonl")
	if err := writeFile(path, func(yield func(bag.Bag) bool) {
		for _, b := range bags {
			if !yield(b.bag) {
				return
			}
		}
	}); err != nil {
		return err
	}
	if err := table(log, bags); err != nil {
		return err
	}
	for source, items := range c.evaluation {
		path := filepath.Join(cfg.work, "eval-"+source+".jsonl")
		if err := writeFile(path, func(yield func(bag.Bag) bool) {
			for i, it := range items {
				b := bag.Bag{ID: fmt.Sprintf("%s-%05d", source, i), Label: it.label, Response: it.text, Spans: it.spans}
				if !yield(b) {
					return
				}
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a bag file.
func writeFile(path string, bags iter.Seq[bag.Bag]) error {
	err := durable.WriteTo(path, 0o644, func(w io.Writer) error { return bag.Write(w, bags) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// table prints the bags and the share of violations by source and by instance
// count: a share near 0.5 in a cell means that the cell does not predict the label.
func table(w io.Writer, bags []sampledBag) error {
	type cell struct{ violations, all int }
	cells := map[string]map[string]*cell{}
	columns := []string{"1", "2", "3", "4-5", "6-8", "9-12", "13+", "all"}
	count := func(row, column string, b sampledBag) {
		if cells[row] == nil {
			cells[row] = map[string]*cell{}
		}
		if cells[row][column] == nil {
			cells[row][column] = &cell{}
		}
		cells[row][column].all++
		if b.bag.Label == bag.Violation {
			cells[row][column].violations++
		}
	}
	instances := 0
	for _, b := range bags {
		instances += b.instances
		for _, row := range []string{b.source, "~ all"} {
			count(row, column(b.instances), b)
			count(row, "all", b)
		}
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%d bags, %d instances; violations/bags by instances\t", len(bags), instances)
	for _, name := range columns {
		fmt.Fprintf(out, "%s\t", name)
	}
	fmt.Fprintln(out)
	for _, row := range slices.Sorted(maps.Keys(cells)) {
		fmt.Fprintf(out, "%s\t", row)
		for _, name := range columns {
			if c := cells[row][name]; c != nil {
				fmt.Fprintf(out, "%d/%d\t", c.violations, c.all)
			} else {
				fmt.Fprint(out, "-\t")
			}
		}
		fmt.Fprintln(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "AUROC of trivial scores: instances %.3f, bytes %.3f, source %.3f\n",
		wordlessAUROC(bags, func(b sampledBag) float64 { return float64(b.instances) }),
		wordlessAUROC(bags, func(b sampledBag) float64 { return float64(len(b.bag.Response)) }),
		wordlessAUROC(bags, func(b sampledBag) float64 {
			all := cells[b.source]["all"]
			return float64(all.violations) / float64(all.all)
		}))
	return err
}

// wordlessAUROC returns how well a score that ignores the words ranks the bags; 0.5 is
// chance. The source is predictive by itself: one set has only toxic comments.
func wordlessAUROC(bags []sampledBag, score func(sampledBag) float64) float64 {
	scores, truth := make([]float64, len(bags)), make([]bool, len(bags))
	for i, b := range bags {
		scores[i], truth[i] = score(b), b.bag.Label == bag.Violation
	}
	return eval.AUROC(scores, truth)
}

func column(instances int) string {
	switch {
	case instances <= 3:
		return fmt.Sprint(instances)
	case instances <= 5:
		return "4-5"
	case instances <= 8:
		return "6-8"
	case instances <= 12:
		return "9-12"
	}
	return "13+"
}
