package queue

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The streams of feedback and what lies below their subjects. Identifiers are
// in subjects only as hashes.
const (
	StreamScored  = "ASSAY_SCORED"
	SubjectScored = "assay.v1.scored" // kept scored responses, followed by the hash of the id

	subjectRecords    = SubjectFeedback + ".item"   // followed by the hashes of id and rater
	subjectTombstones = SubjectFeedback + ".erased" // followed by the hash of the id
)

// Headers of feedback records. All that an index needs is in them and in the
// subject, so that it is built without reading a single text.
const (
	HeaderLabel = "Assay-Label"     // "compliant" or "violation"
	HeaderText  = "Assay-Text-Hash" // of the text of the response
	HeaderTime  = "Assay-Time"      // the rater's, in RFC 3339, when it is known
	HeaderGroup = "Assay-Group"     // of responses that are held out together; none: stored before there were groups
)

// Defaults of the streams of feedback.
const (
	DefaultFeedbackMaxBytes = 1 << 30
	DefaultScoredMaxBytes   = 1 << 30
)

const (
	labelCompliant = "compliant"
	labelViolation = "violation"
)

// feedbackStreams returns what the streams of feedback must be.
func (c StreamsConfig) feedbackStreams() []jetstream.StreamConfig {
	records := jetstream.StreamConfig{
		Name:        StreamFeedback,
		Description: "labels of whole responses: the latest of each response and rater",
		Subjects:    []string{SubjectFeedback + ".>"},
		// A correction takes the place of what it corrects.
		MaxMsgsPerSubject: 1,
		// When it is full, who sends feedback is told so, instead of the
		// oldest label being lost.
		Discard:  jetstream.DiscardNew,
		MaxBytes: c.FeedbackMaxBytes,
		// No age: what is erased stays erased, and a server that starts
		// again drops whatever is too old. See Feedback.expire.
		MaxMsgSize:  -1,
		AllowDirect: true,
		Duplicates:  c.DuplicateWindow,
		Replicas:    c.Replicas,
		// So that one fsync covers many labels. Of servers that have batches.
		AllowAtomicPublish: c.apiLevel2,
	}
	if c.KeepScored <= 0 {
		return []jetstream.StreamConfig{records}
	}
	persist := jetstream.DefaultPersistMode
	if c.apiLevel2 && c.Replicas <= 1 {
		// No client learns that a scored response is kept, and each would cost
		// an fsync: so these are written when the server gets to it.
		persist = jetstream.AsyncPersistMode
	}
	return []jetstream.StreamConfig{records, {
		Name:              StreamScored,
		PersistMode:       persist,
		Description:       "scored responses, kept for a time for feedback by response_id",
		Subjects:          []string{SubjectScored + ".>"},
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardOld,
		MaxBytes:          c.ScoredMaxBytes,
		MaxAge:            c.KeepScored,
		MaxMsgSize:        -1,
		AllowDirect:       true,
		Replicas:          c.Replicas,
	}}
}

// withFeedbackDefaults fills the zero values for streams that are created.
func (c StreamsConfig) withFeedbackDefaults() StreamsConfig {
	c.FeedbackMaxBytes = cmp.Or(c.FeedbackMaxBytes, DefaultFeedbackMaxBytes)
	c.ScoredMaxBytes = cmp.Or(c.ScoredMaxBytes, DefaultScoredMaxBytes)
	return c
}

// incompatibleLog names the first setting of an existing stream that would make
// it no log of the latest message of each subject, or "".
func incompatibleLog(have, want jetstream.StreamConfig) string {
	switch {
	case want.Name != StreamFeedback && want.Name != StreamScored:
		return ""
	case have.MaxMsgsPerSubject != 1:
		return fmt.Sprintf("it keeps %d messages of a subject (-1: all), must keep 1", have.MaxMsgsPerSubject)
	case have.DenyDelete:
		return "it denies deleting, so that nothing can be erased"
	case want.Discard == jetstream.DiscardNew && have.Discard != jetstream.DiscardNew && (have.MaxBytes > 0 || have.MaxMsgs > 0):
		return "it discards the oldest labels when full, must discard new ones"
	case want.Discard == jetstream.DiscardNew && have.MaxAge > 0:
		return "it drops labels, and what was erased, by age; set the age of labels in assay"
	}
	return ""
}

// forget makes the stream of kept responses forget as soon as it is asked to,
// also when it exists with a longer memory: how long texts are kept is a
// promise to those who wrote them, and not a size.
func forget(ctx context.Context, js jetstream.JetStream, keep time.Duration) error {
	stream, err := js.Stream(ctx, StreamScored)
	if err != nil {
		return fmt.Errorf("stream %s: %w", StreamScored, explain(err))
	}
	cfg := stream.CachedInfo().Config
	if cfg.MaxAge == keep {
		return nil
	}
	cfg.MaxAge = keep
	cfg.Duplicates = min(cfg.Duplicates, keep)
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("stream %s: setting its maximum age: %w", StreamScored, explain(err))
	}
	return nil
}

func recordSubject(id, rater feedback.Hash) string {
	return subjectRecords + "." + id.String() + "." + rater.String()
}

func tombstoneSubject(id feedback.Hash) string { return subjectTombstones + "." + id.String() }

func scoredSubject(id feedback.Hash) string { return SubjectScored + "." + id.String() }

// setMark writes what is not in the subject.
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
