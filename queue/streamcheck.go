package queue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/labels"
	"assay/queue/registry"
)

// incompatible returns the first setting of an existing stream that would lose responses
// or rewards, or "".
func incompatible(have, want jetstream.StreamConfig) string {
	workQueue := want.Retention == jetstream.WorkQueuePolicy
	switch {
	case have.Retention != want.Retention:
		return fmt.Sprintf("retention is %v, must be %v", have.Retention, want.Retention)
	case have.Storage != jetstream.FileStorage:
		return "storage is memory, must be file"
	case have.PersistMode == jetstream.AsyncPersistMode && want.Name != labels.StreamScored: // which keeps the mode it was created with
		return "it acknowledges before it writes (persist_mode async), must be default"
	case have.NoAck || have.Sealed || have.Mirror != nil:
		return "it is a mirror, sealed, or does not acknowledge"
	case !slices.Contains(have.Subjects, want.Subjects[0]):
		return fmt.Sprintf("subjects are %v, must include %s", have.Subjects, want.Subjects[0])
	case have.SubjectTransform != nil:
		return "it transforms subjects"
	case workQueue && (have.MaxAge > 0 || have.MaxMsgsPerSubject > 0):
		return "it drops responses by age or by subject before they are scored"
	case workQueue && have.Discard != jetstream.DiscardNew && (have.MaxBytes > 0 || have.MaxMsgs > 0):
		return "it discards the oldest responses when full, must discard new ones"
	}
	return cmp.Or(incompatibleLog(have, want), incompatibleBucket(have, want))
}

// incompatibleLog returns the first setting of an existing stream that prevents a log of
// the latest message of each subject, or "".
func incompatibleLog(have, want jetstream.StreamConfig) string {
	switch {
	case want.Name != labels.StreamFeedback && want.Name != labels.StreamScored:
		return ""
	case have.MaxMsgsPerSubject != 1:
		return fmt.Sprintf("it keeps %d messages per subject (-1: all), must keep 1", have.MaxMsgsPerSubject)
	case have.DenyDelete:
		return "it denies deleting, so that nothing can be erased"
	case want.Discard == jetstream.DiscardNew && have.Discard != jetstream.DiscardNew && (have.MaxBytes > 0 || have.MaxMsgs > 0):
		return "it discards the oldest labels when full, must discard new ones"
	case want.Discard == jetstream.DiscardNew && have.MaxAge > 0:
		return "it drops labels, and what was erased, by age; set the age of labels in assay"
	}
	return ""
}

// incompatibleBucket returns the first setting of an existing bucket that would lose its
// contents, or "".
func incompatibleBucket(have, want jetstream.StreamConfig) string {
	switch {
	case want.Name != registry.StreamState && want.Name != registry.StreamModels:
		return ""
	case have.MaxAge > 0:
		return fmt.Sprintf("it drops what is older than %v", have.MaxAge)
	case have.Discard != jetstream.DiscardNew && (have.MaxBytes > 0 || have.MaxMsgs > 0):
		return "it discards the oldest values when full, must discard new ones"
	case want.Name == registry.StreamState && have.MaxMsgsPerSubject < 1:
		return "it is not a key-value bucket: it keeps all values of a key"
	case want.Name == registry.StreamModels && have.MaxMsgsPerSubject > 0:
		return "it keeps only some parts of each file"
	case want.Name == registry.StreamModels && !have.AllowRollup:
		return "it is not an object store: it denies roll-ups"
	}
	for _, subject := range want.Subjects {
		if !slices.Contains(have.Subjects, subject) {
			return fmt.Sprintf("subjects are %v, must include %s", have.Subjects, subject)
		}
	}
	return ""
}
