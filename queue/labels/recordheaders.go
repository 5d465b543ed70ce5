package labels

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
)

// Streams and subjects of labels and scored responses. Subjects contain identifiers
// only as hashes.
const (
	StreamFeedback  = "ASSAY_FEEDBACK"
	SubjectFeedback = "assay.v1.feedback" // of requests to append labels; records are below it

	StreamScored  = "ASSAY_SCORED"
	SubjectScored = "assay.v1.scored" // of scored responses, followed by the hash of the id

	subjectRecords    = SubjectFeedback + ".item"   // followed by the hashes of id and rater
	subjectTombstones = SubjectFeedback + ".erased" // followed by the hash of the id

	// subjectConfirmed has an empty message, which is stored to confirm that a record is
	// the last one. It is below a subject that earlier releases may publish to; they
	// ignore the message.
	subjectConfirmed = subjectTombstones + ".confirmed"
)

// Headers of records. They and the subject contain all that an index needs, so that
// it is built without reading any text.
const (
	HeaderLabel  = "Assay-Label"     // "compliant", "violation" or "withdrawn"
	HeaderText   = "Assay-Text-Hash" // of the text of the response
	HeaderTime   = "Assay-Time"      // when the rater set the label, in RFC 3339, if known
	HeaderGroup  = "Assay-Group"     // of responses that are held out together; absent: stored before there were groups
	HeaderSender = "Assay-Sender"    // hash of who sent it; absent: without a token, or stored before senders were recorded here
	HeaderPrompt = "Assay-Prompt"    // promptGiven if the record has a prompt; absent: none, or stored before that was recorded

	// Aspects (rules) with a label, separated by commas. Earlier releases ignore
	// them and read HeaderLabel, which is then the verdict on the whole response.
	HeaderViolated = "Assay-Aspects-Violation"
	HeaderComplied = "Assay-Aspects-Compliant"
	// HeaderScope is scopeAspects if HeaderLabel is only a consequence of the labels
	// of aspects; absent: a rater gave it.
	HeaderScope = "Assay-Label-Scope"
)

const (
	scopeAspects = "aspects"
	promptGiven  = "given"
)

// labelWithdrawn is the HeaderLabel of a record without a text, which replaces the
// label that its rater has withdrawn. Earlier releases ignore such a record.
const labelWithdrawn = "withdrawn"

func recordSubject(id, rater feedback.Hash) string {
	return subjectRecords + "." + id.String() + "." + rater.String()
}

// recordSubjects matches the subjects of all records of an id.
func recordSubjects(id feedback.Hash) string { return subjectRecords + "." + id.String() + ".*" }

func tombstoneSubject(id feedback.Hash) string { return subjectTombstones + "." + id.String() }

func scoredSubject(id feedback.Hash) string { return SubjectScored + "." + id.String() }

// setMark sets the headers of a mark.
func setMark(header nats.Header, mark feedback.Mark) {
	header.Set(HeaderLabel, string(mark.Labels.Verdict()))
	if mark.Labels.Withdrawn() {
		header.Set(HeaderLabel, labelWithdrawn)
	}
	if mark.Labels.Whole == "" && len(mark.Labels.Aspects) > 0 {
		header.Set(HeaderScope, scopeAspects)
	}
	for name, label := range aspectHeaders() {
		var named []string
		for _, aspect := range slices.Sorted(maps.Keys(mark.Labels.Aspects)) {
			if mark.Labels.Aspects[aspect] == label {
				named = append(named, aspect)
			}
		}
		if len(named) > 0 {
			header.Set(name, strings.Join(named, ","))
		}
	}
	header.Set(HeaderText, mark.Text.String())
	if mark.Group != (feedback.Hash{}) {
		header.Set(HeaderGroup, mark.Group.String())
	}
	if mark.Sender != (feedback.Hash{}) {
		header.Set(HeaderSender, mark.Sender.String())
	}
	if mark.Prompted {
		header.Set(HeaderPrompt, promptGiven)
	}
	if mark.Time != nil {
		header.Set(HeaderTime, mark.Time.UTC().Format(time.RFC3339Nano))
	}
}

// readMark is the inverse of recordSubject and setMark.
func readMark(subject string, header nats.Header, sequence uint64) (mark feedback.Mark, err error) {
	id, rater, _ := strings.Cut(strings.TrimPrefix(subject, subjectRecords+"."), ".")
	mark.Sequence, mark.Prompted = sequence, header.Get(HeaderPrompt) == promptGiven
	if mark.ID, err = feedback.ParseHash(id); err != nil {
		return mark, err
	}
	if mark.Rater, err = feedback.ParseHash(rater); err != nil {
		return mark, err
	}
	if mark.Text, err = feedback.ParseHash(header.Get(HeaderText)); err != nil {
		return mark, fmt.Errorf("header %s: %w", HeaderText, err)
	}
	if group := header.Get(HeaderGroup); group != "" {
		if mark.Group, err = feedback.ParseHash(group); err != nil {
			return mark, fmt.Errorf("header %s: %w", HeaderGroup, err)
		}
	}
	if sender := header.Get(HeaderSender); sender != "" {
		if mark.Sender, err = feedback.ParseHash(sender); err != nil {
			return mark, fmt.Errorf("header %s: %w", HeaderSender, err)
		}
	}
	if mark.Labels, err = readLabels(header); err != nil {
		return mark, err
	}
	if text := header.Get(HeaderTime); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return mark, fmt.Errorf("header %s: %w", HeaderTime, err)
		}
		mark.Time = &at
	}
	return mark, nil
}

// aspectHeaders are the headers of aspects with a label.
func aspectHeaders() map[string]bag.Label {
	return map[string]bag.Label{HeaderViolated: bag.Violation, HeaderComplied: bag.Compliant}
}

func readLabels(header nats.Header) (labels feedback.Labels, err error) {
	switch label := bag.Label(header.Get(HeaderLabel)); label {
	case labelWithdrawn:
		return feedback.Labels{}, nil
	case bag.Violation, bag.Compliant:
		labels.Whole = label
	default:
		return labels, fmt.Errorf("header %s is %.40q", HeaderLabel, label)
	}
	for name, label := range aspectHeaders() {
		text := header.Get(name)
		if text == "" {
			continue
		}
		for aspect := range strings.SplitSeq(text, ",") {
			if err := rewardmodel.CheckAspect(aspect); err != nil {
				return labels, fmt.Errorf("header %s: %w", name, err)
			}
			if labels.Aspects == nil {
				labels.Aspects = map[string]bag.Label{}
			}
			if other, ok := labels.Aspects[aspect]; ok && other != label {
				return labels, fmt.Errorf("header %s: aspect %s is %s as well", name, aspect, other)
			}
			labels.Aspects[aspect] = label
		}
	}
	switch scope := header.Get(HeaderScope); {
	case scope == "":
	case scope == scopeAspects && labels.Aspects != nil:
		labels.Whole = ""
	default:
		return labels, fmt.Errorf("header %s is %.40q", HeaderScope, scope)
	}
	return labels, nil
}
