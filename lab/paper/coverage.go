package paper

import "fmt"

// coverageLine counts the cells of the paper's AvgAcc tables for trained methods that have a run with a pre-trained
// backbone.
func coverageLine(gs []group, all []Published, index published) string {
	cells, covered := map[string]bool{}, map[string]bool{}
	for _, p := range all {
		if p.Metric == avgAcc && p.Backbone != "" && p.Column != columnAUC {
			cells[p.key()] = true
		}
	}
	mark := func(p Published, ok bool) {
		if ok && p.Backbone != "" {
			covered[p.key()] = true
		}
	}
	for _, g := range gs {
		for _, s := range g.series {
			for sigma, runs := range s.at {
				mark(g.published(index, avgAcc, s, fmt.Sprint(sigma)))
				if _, ok := runs[0].AtThreshold["fixed"]; ok && s.method == BFGPU && s.changed == "" { // the ablation without ADT
					mark(index.find(g.dataset, g.macro, g.backbone, avgAcc, BFGPU, Settings{"threshold": "fixed"}, fmt.Sprint(sigma)))
				}
			}
		}
	}
	return fmt.Sprintf("%d of the %d AvgAcc cells that the paper has for trained methods have a run, on bags of the same protocol or a cap of it.\n",
		len(covered), len(cells))
}
