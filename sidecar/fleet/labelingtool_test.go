package fleet_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/sidecar/processtest"
)

// labelingTool sends feedback as a labeling tool does, with duplicates, corrections and invalid items, and records what the
// service has accepted.
type labelingTool struct {
	p     *processtest.Process
	nc    *nats.Conn
	sent  int
	kept  map[string]bag.Label
	older []bag.Bag // accepted, never corrected
}

func newLabelingTool(p *processtest.Process, nc *nats.Conn) *labelingTool {
	return &labelingTool{p: p, nc: nc, kept: map[string]bag.Label{}}
}

func line(t *testing.T, b bag.Bag) string {
	t.Helper()
	b.Witness, b.Spans = nil, nil
	text, err := b.AppendJSON(nil)
	require.NoError(t, err)
	return string(text)
}

// send sends items in one batch, alternating between JSON over HTTP, JSONL over HTTP, and NATS.
func (l *labelingTool) send(t *testing.T, items ...string) feedback.Receipt {
	t.Helper()
	object := fmt.Sprintf(`{"batch_id":"batch %d","items":[%s]}`, l.sent, strings.Join(items, ","))
	var out []byte
	switch l.sent++; l.sent % 3 {
	case 0:
		reply, err := l.nc.Request(labels.SubjectFeedback, []byte(object), processtest.Timeout)
		require.NoError(t, err)
		require.Empty(t, reply.Header.Get("Nats-Service-Error"), string(reply.Data))
		out = reply.Data
	case 1:
		out = l.post(t, "application/json", object)
	case 2:
		out = l.post(t, "application/x-ndjson", strings.Join(items, "\n"))
	}
	var receipt feedback.Receipt
	require.NoError(t, json.Unmarshal(out, &receipt), string(out))
	require.Equal(t, len(items), receipt.Accepted+receipt.Duplicates+len(receipt.Rejected), "the receipt counts every item")
	return receipt
}

func (l *labelingTool) post(t *testing.T, kind, body string) []byte {
	t.Helper()
	response, err := http.Post(l.p.Ready.HTTP+"/v1/feedback", kind, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, response.StatusCode, string(out))
	return out
}

// sendLabels sends bags in overlapping batches, with labels that the next batch corrects, ids that belong to other texts,
// and invalid items. It sends each batch twice, like a client that has received no reply.
func (l *labelingTool) sendLabels(t *testing.T, bags []bag.Bag) {
	t.Helper()
	const size = 40
	var corrected []bag.Bag
	for part := range slices.Chunk(bags, size) {
		last := len(part) > 0 && part[len(part)-1].ID == bags[len(bags)-1].ID
		var items []string
		var next []bag.Bag
		for _, b := range corrected {
			items = append(items, line(t, b))
		}
		for i, b := range part {
			if i%8 == 7 && !last {
				next = append(next, b)
				b.Label = opposite(b.Label)
			}
			items = append(items, line(t, b))
		}
		accepted := len(items)
		items = append(items, items[accepted-1]) // a duplicate within the batch
		for _, b := range l.older[:min(5, len(l.older))] {
			items = append(items, line(t, b))
		}
		duplicates := len(items) - accepted
		items = append(items, `{"id":"no-label","response":"Why not?"}`, `{"id":"no-text","label":"compliant","response":" "}`)
		codes := []feedback.Code{feedback.CodeInvalid, feedback.CodeNoText}
		if len(l.older) > 0 {
			other := l.older[0]
			other.Response, other.Instances = "Something else.", nil
			items = append(items, line(t, other))
			codes = append(codes, feedback.CodeConflict)
		}

		receipt := l.send(t, items...)
		require.Equal(t, accepted, receipt.Accepted)
		require.Equal(t, duplicates, receipt.Duplicates)
		require.Equal(t, codes, codesOf(receipt))
		receipt = l.send(t, items...)
		require.Zero(t, receipt.Accepted)
		require.Equal(t, accepted+duplicates, receipt.Duplicates)
		require.Equal(t, codes, codesOf(receipt))

		for i, b := range part {
			l.kept[b.ID] = b.Label // after its correction
			if i%8 != 7 {
				l.older = append(l.older, b)
			}
		}
		corrected = next
	}
}

func opposite(l bag.Label) bag.Label {
	if l == bag.Violation {
		return bag.Compliant
	}
	return bag.Violation
}

func codesOf(r feedback.Receipt) []feedback.Code {
	var codes []feedback.Code
	for _, rejection := range r.Rejected {
		codes = append(codes, rejection.Code)
	}
	return codes
}

// requireKept compares the stream with the accepted labels.
func (l *labelingTool) requireKept(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), labels.StreamFeedback, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{labels.SubjectFeedback + ".item.>"},
	})
	require.NoError(t, err)
	info, err := consumer.Info(t.Context())
	require.NoError(t, err)
	stored := map[string]bag.Label{}
	for range info.NumPending {
		msg, err := consumer.Next(jetstream.FetchMaxWait(processtest.Timeout))
		require.NoError(t, err)
		record, err := feedback.ParseRecord(msg.Data())
		require.NoError(t, err)
		require.NotContains(t, stored, record.Bag.ID, "there is one record per rater")
		stored[record.Bag.ID] = record.Bag.Label
	}
	require.Equal(t, l.kept, stored)
}

// splitBags returns trained bags of the training split and held bags of each label of the hold-out. The split depends on
// the salt, which differs between services.
func splitBags(t *testing.T, js jetstream.JetStream, bags []bag.Bag, trained, held int) (out []bag.Bag) {
	t.Helper()
	split := feedback.Split{Share: holdoutShare, Salt: holdoutSalt(t, js)}
	left := map[bag.Label]int{bag.Compliant: held, bag.Violation: held}
	for _, b := range bags {
		m := feedback.Record{Bag: b}.Mark(0)
		switch {
		case !split.HeldOut(m.ID, m.Group):
			if trained > 0 {
				trained--
				out = append(out, b)
			}
		case left[b.Label] > 0:
			left[b.Label]--
			out = append(out, b)
		}
	}
	require.Zero(t, trained+left[bag.Compliant]+left[bag.Violation], "too few bags")
	return out
}

// holdoutSalt returns the secret with which a service selects the hold-out.
func holdoutSalt(t *testing.T, js jetstream.JetStream) (salt []byte) {
	t.Helper()
	bucket, err := js.KeyValue(t.Context(), registry.BucketState)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		e, err := bucket.Get(t.Context(), "holdout.salt")
		if err != nil {
			return false
		}
		salt, err = hex.DecodeString(string(e.Value()))
		return err == nil
	}, processtest.Timeout, 10*time.Millisecond)
	return salt
}

// field returns the raw value at a path of a JSON document.
func field(t *testing.T, document, path string) string {
	t.Helper()
	value := jsontext.Value(document)
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]jsontext.Value
		require.NoError(t, json.Unmarshal(value, &object), "%s of %s", name, value)
		value = object[name]
	}
	return string(value)
}
