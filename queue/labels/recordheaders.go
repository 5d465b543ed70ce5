package labels

import (
	"fmt"
	"strings"
	"time"

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
)

// Headers of records. They and the subject contain all that an index needs, so that
// it is built without reading any text.
const (
	HeaderLabel = "Assay-Label"     // "compliant" or "violation"
	HeaderText  = "Assay-Text-Hash" // of the text of the response
	HeaderTime  = "Assay-Time"      // when the rater set the label, in RFC 3339, if known
	HeaderGroup = "Assay-Group"     // of responses that are held out together; absent: stored before there were groups
)

const (
	labelCompliant = "compliant"
	labelViolation = "violation"
)

func recordSubject(id, rater feedback.Hash) string {
	return subjectRecords + "." + id.String() + "." + rater.String()
}

func tombstoneSubject(id feedback.Hash) string { return subjectTombstones + "." + id.String() }

func scoredSubject(id feedback.Hash) string { return SubjectScored + "." + id.String() }

// setMark sets the headers of a mark.
func setMark(header nats.Header, mark feedback.Mark) {
	label := labelCompliant
	if mark.Violation {
		label = labelViolation
	}
	header.Set(HeaderLabel, label)
	header.Set(HeaderText, mark.Text.String())
	if mark.Group != (feedback.Hash{}) {
		header.Set(HeaderGroup, mark.Group.String())
	}
	if mark.Time != nil {
		header.Set(HeaderTime, mark.Time.UTC().Format(time.RFC3339Nano))
	}
}

// readMark is the inverse of recordSubject and setMark.
func readMark(subject string, header nats.Header, sequence uint64) (mark feedback.Mark, err error) {
	id, rater, _ := strings.Cut(strings.TrimPrefix(subject, subjectRecords+"."), ".")
	mark.Sequence = sequence
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
	switch label := header.Get(HeaderLabel); label {
	case labelViolation:
		mark.Violation = true
	case labelCompliant:
	default:
		return mark, fmt.Errorf("header %s is %.40q", HeaderLabel, label)
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
