package paper

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/durable"
)

// skeleton is the report without results: the prose and the markers of the generated parts.
//
//go:embed skeleton.md
var skeleton string

// ErrMarkers reports that the markers of the generated parts in README.md do not match.
var ErrMarkers = errors.New("paper: the markers of generated parts do not match")

// WriteReport writes README.md and its plots into dir and returns the names of the files that changed. The text
// between <!-- results:begin NAME --> and <!-- results:end NAME --> is generated, all other text of an existing
// README.md is kept; without one the report starts from a skeleton. Equal records give equal bytes.
func WriteReport(dir string, records []Record) ([]string, error) {
	all, err := PublishedResults()
	if err != nil {
		return nil, err
	}
	index, err := newPublished()
	if err != nil {
		return nil, err
	}
	gs := groups(records)
	plots, err := drawPlots(gs, index)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "plots"), 0o755); err != nil {
		return nil, fmt.Errorf("paper: report: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = []byte(skeleton), nil
	}
	if err != nil {
		return nil, fmt.Errorf("paper: report: %w", err)
	}
	if text, err = fill(text, parts(gs, records, all, index, plots)); err != nil {
		return nil, fmt.Errorf("%w: %s", err, filepath.Join(dir, "README.md"))
	}
	files := map[string][]byte{"README.md": text}
	for _, p := range plots {
		files[p.file] = p.svg
	}
	var changed []string
	for _, name := range sortedKeys(files) {
		replaced, err := replace(filepath.Join(dir, filepath.FromSlash(name)), files[name])
		if err != nil {
			return nil, fmt.Errorf("paper: report: %w", err)
		}
		if replaced {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// parts returns the generated parts by name.
func parts(gs []group, records []Record, all []Published, index published, plots []plotFile) map[string]string {
	var results, settings, thresholds []string
	for _, g := range gs {
		results = append(results, g.results(index, plots))
		settings = append(settings, section("### "+g.title(), g.settingsTable(index), images(plots, g.recipe, kindAblation)))
		thresholds = append(thresholds, section("### "+g.title(), g.thresholdTable(index), g.placementTables(), images(plots, g.recipe, kindScores)))
	}
	return map[string]string{
		"runs":           orNothing(runs(gs, records, all, index)),
		"overview":       orNothing(overview(gs)),
		"results":        orNothing(strings.Join(results, "")),
		"settings":       orNothing(strings.Join(settings, "")),
		"thresholds":     orNothing(strings.Join(thresholds, "")),
		"marked":         markedTable(records),
		"contradictions": contradictionsTable(all),
	}
}

// runs counts the runs and the cells of the paper that they cover.
func runs(gs []group, records []Record, all []Published, index published) string {
	if len(records) == 0 {
		return ""
	}
	return runsTable(records) + "\n" + coverageLine(gs, all, index)
}

func orNothing(text string) string {
	if text == "" {
		return "No run is recorded yet.\n"
	}
	return text
}

// results holds the tables of a recipe and its plots.
func (g group) results(index published, plots []plotFile) string {
	if len(g.defaults()) == 0 {
		return ""
	}
	return section("### "+g.title(), g.testBagsLine(),
		"AvgAcc, %:\n", g.sweepTable(index, avgAcc),
		"F1 of the normal class, %:\n", g.sweepTable(index, f1Compliant),
		"Ranking, %:\n", g.rankingTable(), g.trainingTable(),
		images(plots, g.recipe, kindSweep, kindLoss))
}

// images shows the plots of a recipe.
func images(plots []plotFile, at recipe, kinds ...kind) string {
	var b strings.Builder
	for _, p := range plots {
		if p.recipe == at && slices.Contains(kinds, p.kind) {
			fmt.Fprintf(&b, "![%s](%s)\n", p.title, p.file)
		}
	}
	return b.String()
}

const (
	beginMark = "<!-- results:begin "
	endMark   = "<!-- results:end "
	markEnd   = " -->"
)

// fill replaces the text between the markers of each part. It omits parts whose markers the author removed.
func fill(text []byte, parts map[string]string) ([]byte, error) {
	var out []byte
	for {
		at := bytes.Index(text, []byte(beginMark))
		if at < 0 {
			break
		}
		rest := text[at+len(beginMark):]
		length := bytes.Index(rest, []byte(markEnd))
		if length < 0 {
			return nil, fmt.Errorf("%w: %q has no %q", ErrMarkers, beginMark, markEnd)
		}
		name := string(rest[:length])
		part, ok := parts[name]
		if !ok {
			return nil, fmt.Errorf("%w: unknown part %q; use one of %s", ErrMarkers, name, strings.Join(sortedKeys(parts), ", "))
		}
		end := []byte(endMark + name + markEnd)
		stop := bytes.Index(rest, end)
		if stop < 0 || bytes.Contains(rest[:stop], []byte(beginMark)) {
			return nil, fmt.Errorf("%w: %q has no matching %q", ErrMarkers, beginMark+name+markEnd, end)
		}
		out = append(out, text[:at]...)
		out = fmt.Appendf(out, "%s%s%s\n\n%s\n%s", beginMark, name, markEnd, strings.TrimRight(part, "\n")+"\n", end)
		text = rest[stop+len(end):]
	}
	return append(out, text...), nil
}

// replace writes a file unless it has this content.
func replace(path string, data []byte) (changed bool, err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	return true, durable.WriteFile(path, data, 0o644)
}
