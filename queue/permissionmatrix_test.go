package queue

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel/feedback"
)

// grants are the only subjects of assay that a user may publish to, and reads
// those that it may subscribe to besides its inbox, by account. The matrix is
// compared with them.
var (
	grants = map[string][]string{
		"APP": {SubjectScore, SubjectLive, SubjectLive + ".*.*", SubjectResponses + ".>", "$JS.API.INFO",
			"$JS.API.STREAM.INFO." + StreamRewards, "$JS.API.STREAM.MSG.GET." + StreamRewards,
			"$JS.API.CONSUMER.INFO." + StreamRewards + ".*", "$JS.API.CONSUMER.MSG.NEXT." + StreamRewards + ".*",
			"$JS.ACK." + StreamRewards + ".>"},
		"LABELS": {labels.SubjectFeedback},
	}
	reads = map[string][]string{"APP": {SubjectRewards + ".>"}}
)

// streamCalls are requests to JetStream that read or change a stream.
var streamCalls = []string{
	"STREAM.CREATE.%s", "STREAM.UPDATE.%s", "STREAM.DELETE.%s", "STREAM.PURGE.%s", "STREAM.INFO.%s",
	"STREAM.SNAPSHOT.%s", "STREAM.RESTORE.%s", "STREAM.MSG.GET.%s", "STREAM.MSG.DELETE.%s", "DIRECT.GET.%s",
	"CONSUMER.CREATE.%s.c", "CONSUMER.DURABLE.CREATE.%s.c", "CONSUMER.INFO.%s.c", "CONSUMER.NAMES.%s",
	"CONSUMER.DELETE.%s.c", "CONSUMER.PAUSE.%s.c", "CONSUMER.MSG.NEXT.%s.c",
}

// fate is the outcome of one attempt to write to a subject.
type fate string

const (
	refused   fate = "refused by the server"
	contained fate = "arrived in the account of the user alone"
	written   fate = "arrived in the account of assay"
)

// matrix is one user of a server with the repository's values, on which assay
// runs, and two observers without restrictions.
type matrix struct {
	account       string
	nc            *nats.Conn
	refusals      <-chan error
	inside, assay *nats.Conn // in the account of the user, and in that of assay
	queue         *Queue
	tried         map[string]bool             // subjects that are not granted
	kinds         []func(token string) string // of subjects of assay, see targets
	cells         int
}

// Whatever a user does (publish, request with any reply subject, be
// acknowledged by JetStream, create a consumer), it writes to no subject of
// assay but those that it is granted, and reads no other. The users come from
// the values, the subjects from the streams and the service.
func TestUsersHaveNoMoreThanTheirGrants(t *testing.T) {
	t.Parallel()
	r := restrict(t)
	q := r.assay(t)
	storeRewards(t, q, 2000) // for every request that takes one
	kinds := targets(q)
	for account := range r.accounts {
		if account == accountAssay {
			continue
		}
		require.Contains(t, grants, account)
		m := &matrix{account: account, queue: q, kinds: kinds, tried: map[string]bool{}, inside: r.observe(t, account), assay: r.observe(t, accountAssay)}
		m.nc, m.refusals = r.connect(t, account+"_NKEY", "_INBOX_"+strings.ToLower(account))
		t.Run(account, func(t *testing.T) {
			all, err := m.assay.SubscribeSync(">")
			require.NoError(t, err)
			require.NoError(t, all.SetPendingLimits(-1, -1))
			t.Run("publish", m.publish)
			t.Run("reply", m.reply)
			t.Run("deliver", m.deliver)
			t.Run("subscribe", m.subscribe)
			m.nothingCameLate(t, all)
			t.Logf("%d cells", m.cells)
		})
	}
	require.Len(t, r.accounts, len(grants)+1)
}

// storeRewards stores rewards and creates a consumer, as an operator does.
func storeRewards(t *testing.T, q *Queue, n int) {
	t.Helper()
	for i := range n {
		_, err := q.js.Publish(jstest.Context(t), SubjectRewards+".run", fmt.Appendf(nil, `{"id":"r%d"}`, i))
		require.NoError(t, err)
	}
	_, err := q.js.CreateConsumer(jstest.Context(t), StreamRewards, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1})
	require.NoError(t, err)
}

// targets returns every kind of subject that assay uses: of its streams, of its
// service, and of JetStream. A token varies the subject where possible.
func targets(q *Queue) []func(string) string {
	var kinds []func(string) string
	below := func(subject string) {
		kinds = append(kinds, func(token string) string { return strings.Replace(subject, ">", token, 1) })
	}
	for _, subject := range []string{recordSubject(feedback.HashOf("r"), feedback.HashOf("")), labels.SubjectFeedback + ".erased.>",
		registry.SubjectState + "current", registry.SubjectState + "training", registry.SubjectState + "model.>", registry.SubjectState + "reference.>",
		"_INBOX.>", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$SYS.REQ.SERVER.PING"} {
		below(subject)
	}
	for _, s := range (StreamsConfig{KeepScored: time.Hour}).withDefaults().streams(q.nc.MaxPayload()) {
		for _, subject := range s.Subjects {
			below(subject)
		}
		for _, call := range streamCalls {
			below("$JS.API." + fmt.Sprintf(call, s.Name))
		}
		below("$JS.ACK." + s.Name + ".c.1.1.1.1.0")
	}
	for _, e := range q.service.micro.Info().Endpoints {
		below(strings.Replace(e.Subject, "*", ">", 1))
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		below("$SRV." + verb + "." + ServiceName)
	}
	return kinds
}

// publish publishes to each subject.
func (m *matrix) publish(t *testing.T) {
	for target := range m.targets() {
		want := refused
		if granted(grants[m.account], target) {
			want = written
		}
		got := m.fate(t, target, func() error { return m.nc.Publish(target, nil) })
		require.Equal(t, want, got, target)
	}
}

// reply requests on each subject that is granted, with each subject for the
// reply. That reaches nothing outside of the account, unless the user may
// publish there anyway.
func (m *matrix) reply(t *testing.T) {
	for _, subject := range grants[m.account] {
		if subject == SubjectLive+".*.*" {
			subject = m.queue.service.live.prefix + "x"
		}
		subject = strings.NewReplacer(">", "x", "*", "c").Replace(subject)
		for target := range m.targets() {
			if granted(grants[m.account], target) {
				continue
			}
			want := contained
			if strings.HasPrefix(target, "$JS.ACK.") { // a reply that the server reserves
				want = refused
			}
			got := m.fate(t, target, func() error { return m.nc.PublishRequest(m.request(t, subject), target, body(subject)) })
			require.Equal(t, want, got, "%s for a request on %s", target, subject)
		}
	}
}

// request returns the subject to request on: of an acknowledgement, that of a
// message that was delivered.
func (m *matrix) request(t *testing.T, subject string) string {
	if !strings.HasPrefix(subject, "$JS.ACK.") {
		return subject
	}
	msg, err := m.nc.RequestWithContext(jstest.Context(t), "$JS.API.CONSUMER.MSG.NEXT."+StreamRewards+".c", []byte(`{"batch":1,"no_wait":true}`))
	require.NoError(t, err)
	require.Contains(t, msg.Reply, "$JS.ACK.")
	return msg.Reply
}

// body returns a body that gets a reply.
func body(subject string) []byte {
	switch {
	case subject == SubjectScore:
		return []byte(`{"responses":[{"response":"x"}]}`)
	case subject == labels.SubjectFeedback:
		return []byte(`{"items":[]}`)
	case strings.HasPrefix(subject, SubjectLive):
		return []byte(`{"text":"x"}`) // gets an error
	case strings.HasPrefix(subject, SubjectResponses):
		return []byte(item("x"))
	case strings.Contains(subject, ".MSG.GET."):
		return []byte(`{"seq":1}`)
	case strings.Contains(subject, ".MSG.NEXT."):
		return []byte(`{"batch":1,"no_wait":true}`)
	case strings.HasPrefix(subject, "$JS.ACK."):
		return []byte(`+NXT {"batch":1,"no_wait":true}`)
	}
	return nil
}

// deliver requests a consumer of each stream that delivers to each subject.
func (m *matrix) deliver(t *testing.T) {
	for _, call := range []string{"$JS.API.CONSUMER.CREATE.%s.thief", "$JS.API.CONSUMER.DURABLE.CREATE.%s.thief"} {
		for _, s := range (StreamsConfig{KeepScored: time.Hour}).withDefaults().streams(8 << 20) {
			for target := range m.targets() {
				create := fmt.Appendf(nil, `{"stream_name":%q,"config":{"name":"thief","durable_name":"thief","deliver_subject":%q,"deliver_policy":"all","ack_policy":"none"}}`, s.Name, target)
				got := m.fate(t, target, func() error { return m.nc.Publish(fmt.Sprintf(call, s.Name), create) })
				require.Equal(t, refused, got, "%s from %s", target, s.Name)
			}
		}
	}
}

// subscribe subscribes to each subject, and to the inboxes of the others.
func (m *matrix) subscribe(t *testing.T) {
	subjects := []string{">", "*", "_INBOX.>", "_INBOX*.>", "_R_.>", "$JS.>", "$KV.>", "$O.>", "$SRV.>", "$SYS.>"}
	for account := range grants {
		if account != m.account {
			subjects = append(subjects, "_INBOX_"+strings.ToLower(account)+".>")
		}
	}
	for _, subject := range slices.AppendSeq(subjects, m.targets()) {
		sub, err := m.nc.SubscribeSync(subject)
		require.NoError(t, err)
		if granted(reads[m.account], subject) {
			require.NoError(t, m.nc.Flush())
			for len(m.refusals) > 0 {
				require.NotContains(t, (<-m.refusals).Error(), `"`+subject+`"`)
			}
			require.NoError(t, sub.Unsubscribe())
			continue
		}
		for denied := false; !denied; { // the server reports an import twice
			select {
			case err := <-m.refusals:
				require.ErrorIs(t, err, nats.ErrPermissionViolation)
				denied = strings.Contains(err.Error(), `"`+subject+`"`)
			case <-time.After(jstest.Timeout):
				t.Fatalf("nothing forbids to subscribe to %s", subject)
			}
		}
	}
}

// targets yields a subject of every kind.
func (m *matrix) targets() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, kind := range m.kinds {
			m.cells++
			target := kind(feedback.HashOf(fmt.Sprint(m.account, m.cells)).String())
			m.tried[target] = !granted(grants[m.account], target)
			if !yield(target) {
				return
			}
		}
	}
}

// granted reports whether one of the patterns matches a subject.
func granted(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return server.SubjectMatchesFilter(subject, pattern) })
}

// fate waits for the outcome of what try sends to a subject.
func (m *matrix) fate(t *testing.T, target string, try func() error) fate {
	t.Helper()
	inside, assay := make(chan *nats.Msg, 1000), make(chan *nats.Msg, 1000)
	for nc, messages := range map[*nats.Conn]chan *nats.Msg{m.inside: inside, m.assay: assay} {
		sub, err := nc.ChanSubscribe(target, messages)
		require.NoError(t, err)
		defer func() { require.NoError(t, sub.Unsubscribe()) }()
		require.NoError(t, nc.Flush())
	}
	require.NoError(t, try())
	for timeout := time.After(jstest.Timeout); ; {
		select {
		case err := <-m.refusals:
			require.ErrorIs(t, err, nats.ErrPermissionViolation)
			return refused
		case <-inside:
			m.flush(t)
			for len(assay) > 0 {
				if fromOthers(<-assay) {
					return written
				}
			}
			return contained
		case msg := <-assay:
			if fromOthers(msg) {
				return written
			}
		case <-timeout:
			t.Fatalf("nothing has become of a message to %s", target)
		}
	}
}

// flush waits until the server has processed what the user and assay have sent, and
// the observer has received the results.
func (m *matrix) flush(t *testing.T) {
	t.Helper()
	for _, nc := range []*nats.Conn{m.nc, m.queue.nc, m.assay} {
		require.NoError(t, nc.Flush())
	}
}

// nothingCameLate checks what arrived in the account of assay until the end.
func (m *matrix) nothingCameLate(t *testing.T, all *nats.Subscription) {
	t.Helper()
	awaitEmpty(t, m.queue)
	m.flush(t)
	for {
		msg, err := all.NextMsg(0)
		if err != nil {
			return
		}
		require.False(t, m.tried[msg.Subject] && fromOthers(msg), msg.Subject)
	}
}

// fromOthers reports whether a message is not one that assay itself requests.
func fromOthers(msg *nats.Msg) bool { return !strings.HasPrefix(msg.Reply, "_INBOX.") }
