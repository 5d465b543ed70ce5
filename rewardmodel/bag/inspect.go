package bag

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnlearnable is wrapped by Findings.Err: nothing can be learned from the bags.
var ErrUnlearnable = errors.New("bags that cannot be learned from")

// Kind is the kind of a finding.
type Kind string

// The kinds of findings, in the order of Findings.
const (
	NoBags          Kind = "no_bags"          // no bag has an instance; fatal
	OneClass        Kind = "one_class"        // all bags with an instance have the same label; fatal
	Contradiction   Kind = "contradiction"    // bags whose text another bag has with the other label
	Duplicate       Kind = "duplicate"        // bags that repeat the text and the label of an earlier one
	RepeatedID      Kind = "repeated_id"      // bags with the id of an earlier one
	Empty           Kind = "empty"            // bags without an instance after segmentation
	SingleViolation Kind = "single_violation" // violations of one instance, among larger ones
	InstanceLabels  Kind = "instance_labels"  // violations of one instance, and no larger one
)

// Finding is a problem with a set of bags.
type Finding struct {
	Kind  Kind
	Fatal bool     // training on these bags is useless
	Label Label    // of OneClass, the only label
	Count int      // bags concerned
	Of    int      // bags inspected
	IDs   []string // of the first bags concerned, at most 5; those of one contradiction are adjacent
}

// Message describes the finding, the bags and the fix.
func (f Finding) Message() string {
	at := fmt.Sprintf("%d of %d bags", f.Count, f.Of)
	if len(f.IDs) > 0 {
		at += " (" + strings.Join(f.IDs, ", ")
		if f.Count > len(f.IDs) {
			at += ", ..."
		}
		at += ")"
	}
	switch f.Kind {
	case NoBags:
		return fmt.Sprintf("none of %d bags holds an utterance; give responses that are not blank", f.Of)
	case OneClass:
		missing := Violation
		if f.Label == Violation {
			missing = Compliant
		}
		return fmt.Sprintf("all %d bags that hold an utterance have the label %q, so that there is nothing to learn; "+
			"add bags of label %q", f.Count, f.Label, missing)
	case Contradiction:
		return at + " have the same text as a bag of the other label, and no score fits both; " +
			"keep one label of a text, such as the latest or that of most raters"
	case Duplicate:
		return at + " repeat an earlier text and its label, which increases its weight; " +
			"drop the copies unless that is intended"
	case RepeatedID:
		return at + " have the id of an earlier bag; give each bag a unique id, or reports cannot distinguish them"
	case Empty:
		return at + " have no utterance and are ignored"
	case SingleViolation:
		return at + " are violations of a single utterance, which leave the pseudo-label stage no normal one to learn from; " +
			"give the whole response where there is more of it"
	case InstanceLabels:
		return at + " are violations of a single utterance and none is larger: these are labels of utterances; " +
			"a supervised method fits them better than one for coarse labels"
	}
	return at + ": " + string(f.Kind)
}

// Findings are all findings, fatal ones first.
type Findings []Finding

// Err is nil if no finding is fatal; otherwise it wraps ErrUnlearnable and states why.
func (f Findings) Err() error {
	for _, finding := range f {
		if finding.Fatal {
			return fmt.Errorf("%w: %s", ErrUnlearnable, finding.Message())
		}
	}
	return nil
}

// Inspector looks for problems in bags, which are added one at a time. Its zero value
// is ready to use. It stores a digest of each text, not the text. It is not safe for
// concurrent use.
type Inspector struct {
	Prompts bool // the model reads prompts: equal texts that answer different ones differ

	bags  []inspected
	texts map[digest]*textSeen
	ids   map[string]bool

	empty, duplicate, repeatedID, single []int // indexes into bags
	compliant, violating                 int   // bags with an instance
}

type digest [sha256.Size]byte

type inspected struct {
	id   string
	text *textSeen // nil for a bag without instances
}

// textSeen has the bags of a text.
type textSeen struct {
	first                int // index of the first bag that has it
	compliant, violation bool
}

// Add adds a bag, its label for the rule that is learned, and its segments. Bags have
// the same text if they have the same segments, because training uses nothing else,
// except for prompts if Prompts is set.
func (in *Inspector) Add(b Bag, label Label, segments []Segment) {
	if in.texts == nil {
		in.texts, in.ids = map[digest]*textSeen{}, map[string]bool{}
	}
	at := len(in.bags)
	in.bags = append(in.bags, inspected{id: b.ID})
	if in.ids[b.ID] {
		in.repeatedID = append(in.repeatedID, at)
	}
	in.ids[b.ID] = true
	if len(segments) == 0 {
		in.empty = append(in.empty, at)
		return
	}
	key := digestOf(segments)
	if in.Prompts {
		key = digestOf(append(b.asked(), segments...))
	}
	text := in.texts[key]
	if text == nil {
		text = &textSeen{first: at}
		in.texts[key] = text
	}
	in.bags[at].text = text

	count, seen := &in.compliant, &text.compliant
	if label == Violation {
		count, seen = &in.violating, &text.violation
		if len(segments) == 1 {
			in.single = append(in.single, at)
		}
	}
	if *seen {
		in.duplicate = append(in.duplicate, at)
	}
	*count, *seen = *count+1, true
}

// asked returns what the bag answers.
func (b Bag) asked() []Segment {
	out := []Segment{{Text: b.Prompt}}
	for _, m := range b.Messages {
		if m.Role != roleAssistant {
			out = append(out, Segment{Text: m.Content})
		}
	}
	return out
}

// digestOf identifies the texts of segments; the lengths distinguish "a b","c" from "a","b c".
func digestOf(segments []Segment) digest {
	var all []byte
	for _, s := range segments {
		all = fmt.Appendf(all, "%d:%s", len(s.Text), s.Text)
	}
	return sha256.Sum256(all)
}

// Findings returns the findings of the bags so far; nil if there are none.
func (in *Inspector) Findings() Findings {
	var out Findings
	switch full := in.compliant + in.violating; {
	case full == 0:
		out = append(out, Finding{Kind: NoBags, Fatal: true, Of: len(in.bags)})
	case in.violating == 0:
		out = append(out, Finding{Kind: OneClass, Fatal: true, Label: Compliant, Count: full, Of: len(in.bags)})
	case in.compliant == 0:
		out = append(out, Finding{Kind: OneClass, Fatal: true, Label: Violation, Count: full, Of: len(in.bags)})
	}
	add := func(kind Kind, at []int) {
		if len(at) == 0 {
			return
		}
		f := Finding{Kind: kind, Count: len(at), Of: len(in.bags)}
		for _, i := range at[:min(5, len(at))] {
			f.IDs = append(f.IDs, in.bags[i].id)
		}
		out = append(out, f)
	}
	add(Contradiction, in.contradictory())
	add(Duplicate, in.duplicate)
	add(RepeatedID, in.repeatedID)
	add(Empty, in.empty)
	if len(in.single) < in.violating {
		add(SingleViolation, in.single)
	} else {
		add(InstanceLabels, in.single)
	}
	return out
}

// contradictory returns the bags whose text has both labels, text by text.
func (in *Inspector) contradictory() []int {
	var at []int
	for i, b := range in.bags {
		if b.text != nil && b.text.compliant && b.text.violation {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return in.bags[a].text.first - in.bags[b].text.first })
	return at
}
