// Package bag reads and writes labeled responses: the bags of multiple
// instance learning.
//
// A bag is one response. A person labels the whole response as compliant or as a
// violation; the utterances in it, its instances, have no label. A bag file has one
// JSON object per line:
//
//	{"id":"r1","label":"violation","response":"Of course. You fool."}
//	{"id":"r2","label":"compliant","messages":[{"role":"assistant","content":"Of course."}]}
//
// Instead of one label of the whole response, a bag may have one for each aspect
// (rule) that was judged:
//
//	{"id":"r3","labels":{"toxicity":"compliant","refusal":"violation"},"response":"I cannot help with that."}
//
// For evaluation a bag may also locate its violation, by the index of an instance
// ("witness") or by ranges of code points ("spans"). Training ignores them.
package bag

import "time"

// Label is the coarse judgement of a whole bag.
type Label string

// The two labels. The paper calls them normal (+1) and anomalous (-1).
const (
	Compliant Label = "compliant"
	Violation Label = "violation"
)

// LabelFor returns the label of the bag for one of the aspects of a model, or "" if it
// has none. A label of the whole response is that of a model's only aspect. Of several
// aspects, it says that all comply, but not which one a violation is of.
func (b Bag) LabelFor(aspect string, aspects int) Label {
	if label, ok := b.Labels[aspect]; ok {
		return label
	}
	if aspects == 1 || b.Label == Compliant {
		return b.Label
	}
	return ""
}

// Verdict is the label of the whole response as far as it was labeled: Label, or else a
// violation if any aspect is violated.
func (b Bag) Verdict() Label {
	if b.Label != "" {
		return b.Label
	}
	for _, label := range b.Labels {
		if label == Violation {
			return Violation
		}
	}
	return Compliant
}

// VerdictOn is the label of the whole response for a model with the given aspects:
// Label, or else a violation if any of these aspects is violated; "" if it is unknown,
// because none is known to be violated and one has no label. Labels of other aspects do
// not count.
func (b Bag) VerdictOn(aspects []string) Label {
	if b.Label != "" {
		return b.Label
	}
	verdict := Compliant
	for _, name := range aspects {
		switch b.Labels[name] {
		case Violation:
			return Violation
		case "":
			verdict = ""
		}
	}
	return verdict
}

// Message is one turn of a dialogue. Only those of role "assistant" are
// instances of the bag; the others are context.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Bag is one labeled response. Its text is in exactly one of Messages,
// Instances and Response: the first of them that is not nil, else Response.
type Bag struct {
	ID        string
	Label     Label            // of the whole response; "" if only aspects have labels
	Labels    map[string]Label // by aspect; those that it does not name are unlabeled
	Response  string           // segmented into instances by Segments
	Instances []string         // instances as given, never segmented again
	Messages  []Message        // a dialogue; the assistant's turns are segmented
	Prompt    string           // what the response answers; "" when unknown
	// Comparison names the bags with which this one is compared: its label holds only among them. "" when the label is that
	// of a rule.
	Comparison string
	Rater      string // who gave the label; "" when unknown
	Time       *time.Time
	Witness    *int     // index of the anomalous instance, evaluation only
	Spans      [][2]int // anomalous ranges [start, end) of Response in code points, evaluation only
}
