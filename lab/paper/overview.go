package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// training holds the settings that all columns of an overview share.
type training struct {
	backbone      string
	rate          float64
	epochs, batch int
}

// minMeanBags is the number of test bags of each class from which a column of the overview is in the mean.
const minMeanBags = 100

// overview compares all methods over all data sets that were trained in the same way, in each column on the seeds that
// all its methods have. The mean of the last column is over every column with enough test bags, so that only complete
// rows have it.
func overview(all []group) string {
	var order []training
	members := map[training][]group{}
	for _, g := range all {
		if g.backbone == "" {
			continue
		}
		key := training{g.backbone, g.rate, g.epochs, g.batch}
		if members[key] == nil {
			order = append(order, key)
		}
		members[key] = append(members[key], g)
	}
	slices.SortStableFunc(order, func(a, b training) int {
		return cmp.Or(cmp.Compare(len(members[b]), len(members[a])), cmp.Compare(a.backbone, b.backbone))
	})
	var parts []string
	for _, key := range order {
		heading := fmt.Sprintf("**%s**, learning rate %s, %s, batch %d:\n", key.backbone, number(key.rate), plural(key.epochs, "epoch"), key.batch)
		parts = append(parts, heading, overviewTable(members[key]))
	}
	return strings.Join(parts, "\n")
}

// place is a column of the overview.
type place struct {
	group int
	sigma int
}

func overviewTable(gs []group) string {
	t := table{head: []string{"method"}}
	var places, averaged []place
	seeds, testBags, errors := []string{"*seeds*"}, []string{"*test bags of each class*"}, []string{"*standard error, at most*"}
	cells := map[string]map[place]stat{}
	for i, g := range gs {
		for _, sigma := range g.sigmas {
			at := place{i, sigma}
			common := commonSeeds(g.defaults(), sigma)
			if len(common) == 0 {
				continue
			}
			places = append(places, at)
			t.head = append(t.head, placeTitle(g, sigma))
			bags, standardError := g.testBags(sigma)
			seeds = append(seeds, strings.TrimPrefix(strings.TrimPrefix(seedsTitle(common), "seeds "), "seed "))
			testBags = append(testBags, fmt.Sprint(bags))
			errors = append(errors, fmt.Sprintf("%.1f", standardError))
			if bags >= minMeanBags {
				averaged = append(averaged, at)
			}
			for _, s := range g.defaults() {
				if v, ok := over(onSeeds(s.at[sigma], common), avgAcc); ok {
					if cells[s.method] == nil {
						cells[s.method] = map[place]stat{}
					}
					cells[s.method][at] = v
				}
			}
		}
	}
	top := best{}
	mean := func(method string) (float64, bool) {
		sum := 0.0
		for _, at := range averaged {
			v, ok := cells[method][at]
			if !ok {
				return 0, false
			}
			sum += v.mean
		}
		return sum / float64(len(averaged)), len(averaged) > 0
	}
	methods := slices.DeleteFunc(Methods(), func(m string) bool { return cells[m] == nil })
	for _, m := range without(methods, Oracle) {
		for _, at := range places {
			if v, ok := cells[m][at]; ok {
				top.see(fmt.Sprint(at), v.mean)
			}
		}
		if v, ok := mean(m); ok {
			top.see("mean", v)
		}
	}
	t.head = append(t.head, fmt.Sprintf("mean of columns with ≥ %d test bags", minMeanBags))
	for _, row := range [][]string{seeds, testBags, errors} {
		t.add(append(row, none)...)
	}
	for _, m := range methods {
		row := []string{title(m)}
		for _, at := range places {
			if v, ok := cells[m][at]; ok {
				row = append(row, emphasise(v.mean, m != Oracle && top.is(fmt.Sprint(at), v.mean)))
			} else {
				row = append(row, none)
			}
		}
		if v, ok := mean(m); ok {
			row = append(row, emphasise(v, m != Oracle && top.is("mean", v)))
		} else {
			row = append(row, none)
		}
		t.add(row...)
	}
	return t.String()
}

func placeTitle(g group, sigma int) string {
	name := datasetTitle(g.dataset)
	if sigma > 0 {
		name += " " + sigmaTitle(sigma)
	}
	if g.macro > 1 {
		name += fmt.Sprintf(", macro %d", g.macro)
	}
	if g.bags > 0 {
		name += fmt.Sprintf(", ≤ %d", g.bags)
	}
	return name
}

func emphasise(v float64, bold bool) string {
	if bold {
		return fmt.Sprintf("**%.2f**", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// runsTable counts the runs, with their machines and durations.
func runsTable(records []Record) string {
	if len(records) == 0 {
		return ""
	}
	type where struct{ backbone, machine, version string }
	type sum struct {
		runs        int
		derived     int
		hours       float64
		first, last string
	}
	sums := map[where]*sum{}
	for _, r := range records {
		at := where{backboneTitle(r), r.Machine.String(), r.Version}
		if sums[at] == nil {
			sums[at] = &sum{}
		}
		s, day := sums[at], r.Date.UTC().Format("2006-01-02")
		if r.WeightsOf == "" {
			s.runs++
		} else {
			s.derived++
		}
		s.hours += r.WallSeconds / 3600
		if s.first == "" || day < s.first {
			s.first = day
		}
		s.last = max(s.last, day)
	}
	keys := make([]where, 0, len(sums))
	for at := range sums {
		keys = append(keys, at)
	}
	slices.SortFunc(keys, func(a, b where) int {
		return cmp.Or(cmp.Compare(a.backbone, b.backbone), cmp.Compare(a.machine, b.machine), cmp.Compare(a.version, b.version))
	})
	t := table{prose: true, head: []string{"backbone", "machine", "version", "from", "to", "training runs", "other placements of T", "hours"}}
	for _, at := range keys {
		s := sums[at]
		t.add(at.backbone, at.machine, at.version, s.first, s.last, fmt.Sprint(s.runs), fmt.Sprint(s.derived), fmt.Sprintf("%.1f", s.hours))
	}
	return t.String()
}

func backboneTitle(r Record) string {
	switch {
	case r.RandomBackbone:
		return r.Spec.Backbone + " (random weights)"
	case r.Spec.Judge():
		return title(r.Spec.Method)
	}
	return r.Spec.Backbone
}

// String describes the machine.
func (m Machine) String() string {
	parts := []string{m.CPU}
	if m.Device != "" && m.Device != "cpu" {
		parts[0] = m.Device + " on " + m.CPU
	}
	if m.Threads > 0 {
		parts = append(parts, plural(m.Threads, "thread"))
	}
	if m.Precision != "" {
		parts = append(parts, m.Precision)
	}
	return strings.Join(parts, ", ")
}

// markedTable lists the runs that are not results, and those with a note.
func markedTable(records []Record) string {
	t := table{prose: true, head: []string{"run", "AvgAcc", "AUROC", "note"}}
	for _, r := range records {
		var why []string
		if r.RandomBackbone {
			why = append(why, "random backbone: not a result, shows that the code runs")
		}
		if r.Note != "" {
			why = append(why, r.Note)
		}
		if len(why) > 0 {
			t.add("`"+r.Key+"`", percentOf(r, avgAcc), percentOf(r, bagAUROC), strings.Join(why, "; "))
		}
	}
	if len(t.rows) == 0 {
		return "No run has a note.\n"
	}
	slices.SortFunc(t.rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return t.String()
}

// contradictionsTable lists Contradictions.
func contradictionsTable(all []Published) string {
	t := table{prose: true, head: []string{"table", "row", "finding"}}
	for _, c := range Contradictions(all) {
		t.add(c.Table, c.Method, c.What)
	}
	cells, fitting, chance := grim(all)
	return fmt.Sprintf("%s\n%d of the paper's %d AvgAcc cells on SST-2 are averages that three runs on the protocol's test bags can give; of random numbers about %.0f would be.\n",
		t.String(), fitting, cells, chance)
}
