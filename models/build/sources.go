package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"assay/rewardmodel/bag"
)

// Sources of texts. The data sets' names are those of their directories.
const (
	toxicSpans    = "toxic_spans"
	diaSafety     = "diasafety"
	convAbuse     = "convabuse"
	hateOffensive = "hate_offensive"
)

// disputed is the kind of a text on whose label the raters disagree.
const disputed = "disputed"

// item is one text with its coarse label.
type item struct {
	source string
	kind   string // a finer class of the source, "" when it has none
	label  bag.Label
	text   string
	spans  [][2]int // toxic code points, read for evaluation only
}

func labelOf(violation bool) bag.Label {
	if violation {
		return bag.Violation
	}
	return bag.Compliant
}

// readToxicSpans reads a file of SemEval-2021 Task 5. All of its comments were
// rated toxic as a whole, including those without an agreed span.
func readToxicSpans(path string, withSpans bool) ([]item, error) {
	rows, err := readCSV(path, "spans", "text")
	if err != nil {
		return nil, err
	}
	items := make([]item, len(rows))
	for i, row := range rows {
		items[i] = item{source: toxicSpans, label: bag.Violation, text: row[1]}
		if !withSpans {
			continue
		}
		if items[i].spans, err = ranges(row[0]); err != nil {
			return nil, fmt.Errorf("%s: row %d: spans: %w", path, i+1, err)
		}
	}
	return items, nil
}

// ranges turns a list of offsets, "[3, 4, 5, 9]", into ranges, {3,6} and {9,10}.
func ranges(list string) ([][2]int, error) {
	var offsets []int
	if err := json.Unmarshal([]byte(list), &offsets); err != nil {
		return nil, err
	}
	out := [][2]int{}
	for _, at := range offsets {
		if n := len(out); n > 0 && out[n-1][1] == at {
			out[n-1][1]++
		} else {
			out = append(out, [2]int{at, at + 1})
		}
	}
	return out, nil
}

// readConvAbuse reads messages of users to a bot. One is abusive if the mean of
// its ratings, 1 (not abusive) to -3 (very strongly abusive), is below 0. The
// kind of one whose raters disagree, with a mean of 0 or more and a rating below 0,
// is "disputed".
func readConvAbuse(path string) ([]item, error) {
	rows, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	user, ratings := -1, map[int]int{} // columns
	for column, name := range rows[0] {
		if name == "user" {
			user = column
		}
		if _, value, ok := strings.Cut(name, "_is_abuse."); ok {
			if ratings[column], err = strconv.Atoi(value); err != nil {
				return nil, fmt.Errorf("%s: column %q: %w", path, name, err)
			}
		}
	}
	if user < 0 || len(ratings) == 0 {
		return nil, fmt.Errorf("%s: has no columns user and *_is_abuse.*", path)
	}
	var items []item
	for _, row := range rows[1:] {
		sum, lowest := 0, 0
		for column, value := range ratings {
			// A cell is "0" or "1", or "1, 0" when a rater saw it twice.
			if marks := strings.Count(row[column], "1"); marks > 0 {
				sum += marks * value
				lowest = min(lowest, value)
			}
		}
		it := item{source: convAbuse, label: labelOf(sum < 0), text: cleanText(row[user])}
		if sum >= 0 && lowest < 0 {
			it.kind = disputed
		}
		items = append(items, it)
	}
	return items, nil
}

// readHateOffensive reads tweets; the kind is their class: hate, offensive or
// neither, and both of the former are violations.
func readHateOffensive(path string) ([]item, error) {
	rows, err := readCSV(path, "class", "tweet")
	if err != nil {
		return nil, err
	}
	items := make([]item, len(rows))
	for i, row := range rows {
		class := map[string]string{"0": "hate", "1": "offensive", "2": "neither"}[row[0]]
		if class == "" {
			return nil, fmt.Errorf("%s: row %d: class %q; want 0, 1 or 2", path, i+1, row[0])
		}
		items[i] = item{source: hateOffensive, kind: class, label: labelOf(class != "neither"), text: cleanTweet(row[1])}
	}
	return items, nil
}

// readCSV returns the named columns of the rows after the header, or without
// names every row as it is, the header included.
func readCSV(path string, columns ...string) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := csv.NewReader(file)
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: %w", path, io.ErrUnexpectedEOF)
	}
	if len(columns) == 0 {
		return rows, nil
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = -1
		for column, have := range rows[0] {
			if strings.TrimPrefix(have, "\ufeff") == name {
				at[i] = column
			}
		}
		if at[i] < 0 {
			return nil, fmt.Errorf("%s: has no column %q", path, name)
		}
	}
	out := make([][]string, 0, len(rows)-1)
	for _, row := range rows[1:] {
		picked := make([]string, len(at))
		for i, column := range at {
			picked[i] = row[column]
		}
		out = append(out, picked)
	}
	return out, nil
}
