package paper

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sigmaTitle is the heading of the columns of a sigma_micro; 0 means real bags.
func sigmaTitle(sigma int) string {
	if sigma == 0 {
		return "real bags"
	}
	return fmt.Sprintf("σ %d", sigma)
}

func (g group) paper(index published, metric string, s series, column string) string {
	if p, ok := g.published(index, metric, s, column); ok {
		return p.cell()
	}
	return none
}

// published is the paper's number for a row, where the paper has the same protocol.
func (g group) published(index published, metric string, s series, column string) (Published, bool) {
	changes, ok := s.ablation()
	if !ok {
		return Published{}, false
	}
	return index.find(g.dataset, g.macro, g.backbone, metric, s.method, changes, column)
}

// ablation returns the settings in the form of the paper's tables, false when the paper has no such row.
func (s series) ablation() (Settings, bool) {
	changes, err := ParseSettings(s.changed)
	if err != nil {
		return nil, false
	}
	if changes["pu-loss"] == "false" {
		delete(changes, "pseudo-from") // without the first stage nothing was recorded during it
	}
	for name, value := range changes {
		switch name {
		case "pu-loss", "pseudo-labels", "lambda-pu", "lambda-pseudo":
		case "threshold":
			if value != "fixed" {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return changes, true
}

// sweepTable compares methods over sigma_micro by one metric, alongside the paper's numbers.
func (g group) sweepTable(index published, metric string) string {
	rows := g.defaults()
	top := best{}
	area := false
	for _, s := range rows {
		if !s.ranked() {
			continue
		}
		for _, sigma := range g.sigmas {
			if at, ok := over(s.at[sigma], metric); ok {
				top.see(strconv.Itoa(sigma), at.mean)
			}
		}
		if v, ok := s.area(g.dataset, metric); ok {
			top.see(columnAUC, v)
		}
	}
	for _, s := range rows {
		if _, ok := s.area(g.dataset, metric); ok {
			area = true
		}
	}
	t := table{head: []string{"method"}}
	for _, sigma := range g.sigmas {
		t.head = append(t.head, sigmaTitle(sigma), "paper")
	}
	if area {
		t.head = append(t.head, "AUC", "paper")
	}
	t.head = append(t.head, "seeds")
	for _, s := range rows {
		cells := []string{title(s.method)}
		for _, sigma := range g.sigmas {
			ours := none
			if at, ok := over(s.at[sigma], metric); ok {
				ours = at.cell(s.ranked() && top.is(strconv.Itoa(sigma), at.mean))
			}
			cells = append(cells, ours, g.paper(index, metric, s, strconv.Itoa(sigma)))
		}
		if area {
			ours := none
			if v, ok := s.area(g.dataset, metric); ok {
				ours = stat{mean: v, sd: math.NaN()}.cell(s.ranked() && top.is(columnAUC, v))
			}
			cells = append(cells, ours, g.paper(index, metric, s, columnAUC))
		}
		t.add(append(cells, s.seeds())...)
	}
	t.dropEmpty("paper")
	return t.String()
}

// seeds is the number of runs of a cell, "1-3" where cells differ.
func (s series) seeds() string {
	least, most := math.MaxInt, 0
	for _, runs := range s.at {
		least, most = min(least, len(runs)), max(most, len(runs))
	}
	if least == most {
		return strconv.Itoa(most)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// rankingTable shows the metrics that do not depend on T.
func (g group) rankingTable() string {
	metrics := []struct{ name, title string }{{BestAvgAcc, "AvgAcc, best T"}, {bagAUROC, "AUROC"}, {witnessHit1, "hit@1"}}
	t := table{head: []string{"method"}}
	for _, sigma := range g.sigmas {
		for _, m := range metrics {
			t.head = append(t.head, sigmaTitle(sigma)+": "+m.title)
		}
	}
	top := best{}
	each := func(s series, do func(column string, at stat, ok bool)) {
		for _, sigma := range g.sigmas {
			for _, m := range metrics {
				at, ok := over(s.at[sigma], m.name)
				do(m.name+strconv.Itoa(sigma), at, ok)
			}
		}
	}
	for _, s := range g.defaults() {
		each(s, func(column string, at stat, ok bool) {
			if ok && s.ranked() {
				top.see(column, at.mean)
			}
		})
	}
	for _, s := range g.defaults() {
		cells := []string{title(s.method)}
		each(s, func(column string, at stat, ok bool) {
			if !ok {
				cells = append(cells, none)
				return
			}
			cells = append(cells, at.cell(s.ranked() && top.is(column, at.mean)))
		})
		t.add(cells...)
	}
	return t.String()
}

// settingsTable compares the settings of BFGPU, "" with fewer than two of them.
func (g group) settingsTable(index published) string {
	rows := g.of(BFGPU)
	if len(rows) < 2 {
		return ""
	}
	t := table{head: []string{"settings"}}
	top := best{}
	shared := map[int][]uint64{}
	for _, sigma := range g.sigmas {
		common := commonSeeds(rows, sigma)
		shared[sigma] = common
		t.head = append(t.head, sigmaTitle(sigma)+": AvgAcc", "paper")
		if !sameSeeds(rows, sigma, common) {
			t.head = append(t.head, "AvgAcc, "+seedsTitle(common))
		}
		t.head = append(t.head, "best T", "AUROC", "hit@1")
		for _, s := range rows {
			for _, metric := range []string{avgAcc, BestAvgAcc, bagAUROC, witnessHit1} {
				if at, ok := over(s.at[sigma], metric); ok {
					top.see(metric+strconv.Itoa(sigma), at.mean)
				}
			}
		}
	}
	t.head = append(t.head, "seeds")
	for _, s := range rows {
		name := "defaults"
		if s.changed != "" {
			name = "`" + s.changed + "`"
		}
		cells := []string{name}
		for _, sigma := range g.sigmas {
			for _, metric := range []string{avgAcc, BestAvgAcc, bagAUROC, witnessHit1} {
				ours := none
				if at, ok := over(s.at[sigma], metric); ok {
					ours = at.cell(top.is(metric+strconv.Itoa(sigma), at.mean))
				}
				cells = append(cells, ours)
				if metric == avgAcc {
					cells = append(cells, g.paper(index, metric, s, strconv.Itoa(sigma)))
					if !sameSeeds(rows, sigma, shared[sigma]) {
						paired := none
						if at, ok := over(onSeeds(s.at[sigma], shared[sigma]), avgAcc); ok {
							paired = stat{mean: at.mean, sd: math.NaN()}.cell(false)
						}
						cells = append(cells, paired)
					}
				}
			}
		}
		t.add(append(cells, s.seeds())...)
	}
	t.dropEmpty("paper")
	return fmt.Sprintf("The defaults are `%s`.\n\n%s", DefaultSettings(BFGPU), t.String())
}

// thresholdTable compares the placements of T for BFGPU's default settings, "" when none were recorded.
func (g group) thresholdTable(index published) string {
	rows := slices.DeleteFunc(g.of(BFGPU), func(s series) bool { return s.changed != "" })
	if len(rows) == 0 {
		return ""
	}
	s := rows[0]
	kinds := map[string]bool{}
	for _, runs := range s.at {
		for _, r := range runs {
			for kind := range r.AtThreshold {
				kinds[kind] = true
			}
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	t := table{head: []string{"T"}}
	for _, sigma := range g.sigmas {
		t.head = append(t.head, sigmaTitle(sigma)+": T", "AvgAcc", "paper", "F1")
	}
	for _, kind := range sortedKeys(kinds) {
		cells := []string{kind}
		for _, sigma := range g.sigmas {
			placed, ok := statOf(values(s.at[sigma], func(r Record) (float64, bool) { d, ok := r.AtThreshold[kind]; return d.Threshold, ok }))
			if !ok {
				cells = append(cells, none, none, none, none)
				continue
			}
			acc, _ := statOf(values(s.at[sigma], func(r Record) (float64, bool) { d, ok := r.AtThreshold[kind]; return d.AvgAcc, ok }))
			f1 := none
			if at, ok := statOf(values(s.at[sigma], func(r Record) (float64, bool) {
				v, ok := r.AtThreshold[kind].metrics(r.Counts)[f1Compliant]
				return v, ok
			})); ok {
				f1 = at.cell(false)
			}
			theirs := none
			if kind == "fixed" {
				if p, ok := index.find(g.dataset, g.macro, g.backbone, avgAcc, BFGPU, Settings{"threshold": "fixed"}, strconv.Itoa(sigma)); ok {
					theirs = p.cell()
				}
			}
			cells = append(cells, fmt.Sprintf("%.4f", placed.mean/100), acc.cell(false), theirs, f1)
		}
		t.add(cells...)
	}
	t.dropEmpty("paper")
	return t.String()
}

// placementTables compare the AvgAcc of every method at every placement of T, on the seeds that all of them have.
func (g group) placementTables() string {
	var parts []string
	for _, sigma := range g.sigmas {
		if text := g.placementTable(sigma); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

func (g group) placementTable(sigma int) string {
	rows := slices.DeleteFunc(g.defaults(), func(s series) bool { return len(s.at[sigma]) == 0 || len(s.at[sigma][0].AtThreshold) == 0 })
	if len(rows) < 2 {
		return ""
	}
	common := commonSeeds(rows, sigma)
	kinds, top := map[string]bool{}, best{}
	at := func(s series, kind string) (stat, bool) {
		return statOf(values(onSeeds(s.at[sigma], common), func(r Record) (float64, bool) { d, ok := r.AtThreshold[kind]; return d.AvgAcc, ok }))
	}
	for _, s := range rows {
		for kind := range s.at[sigma][0].AtThreshold {
			kinds[kind] = true
		}
	}
	for _, s := range rows {
		for kind := range kinds {
			if v, ok := at(s, kind); ok && s.ranked() {
				top.see(kind, v.mean)
			}
		}
	}
	t := table{head: append([]string{"method"}, sortedKeys(kinds)...)}
	for _, s := range rows {
		cells := []string{title(s.method)}
		for _, kind := range sortedKeys(kinds) {
			if v, ok := at(s, kind); ok {
				cells = append(cells, v.cell(s.ranked() && top.is(kind, v.mean)))
			} else {
				cells = append(cells, none)
			}
		}
		t.add(cells...)
	}
	return fmt.Sprintf("AvgAcc of every method by the placement of T, %s, %s:\n\n%s", sigmaTitle(sigma), seedsTitle(common), t.String())
}

// trainingTable shows how long each method trained and how far its loss came, "" when no loss was recorded.
func (g group) trainingTable() string {
	t := table{head: []string{"method"}}
	for _, sigma := range g.sigmas {
		t.head = append(t.head, sigmaTitle(sigma)+": steps", "last loss")
	}
	recorded := false
	for _, s := range g.defaults() {
		cells := []string{title(s.method)}
		for _, sigma := range g.sigmas {
			if runs := s.at[sigma]; len(runs) > 0 && len(runs[0].Loss) > 0 {
				last := runs[0].Loss[len(runs[0].Loss)-1]
				cells, recorded = append(cells, fmt.Sprint(last.Step), fmt.Sprintf("%.3f", last.Loss)), true
			} else {
				cells = append(cells, none, none)
			}
		}
		t.add(cells...)
	}
	if !recorded {
		return ""
	}
	return "Optimizer steps, and the mean loss of the last stage, of the first seed:\n\n" + t.String()
}

// section joins parts under a heading, "" when there are none.
func section(heading string, parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if len(parts) == 0 {
		return ""
	}
	return heading + "\n\n" + strings.Join(parts, "\n") + "\n"
}
