package livestream

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api/internal/exchange"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
)

// script is a stream that receives given messages, and then waits for the hangup or
// fails.
type script struct {
	mu      sync.Mutex
	receive []string
	end     error // nil: the client waits
	refuse  error // of Send
	sent    []string
	started bool
	hungUp  chan struct{}
	hangup  error
}

func newScript(end error, messages ...string) *script {
	return &script{receive: messages, end: end, hungUp: make(chan struct{})}
}

func (s *script) Receive() (wire.LiveMessage, error) {
	s.mu.Lock()
	if len(s.receive) > 0 {
		m, err := wire.DecodeLiveMessage([]byte(s.receive[0]), wire.Limits{})
		s.receive = s.receive[1:]
		s.mu.Unlock()
		return m, err
	}
	s.mu.Unlock()
	if s.end != nil {
		return wire.LiveMessage{}, s.end
	}
	<-s.hungUp
	return wire.LiveMessage{}, os.ErrDeadlineExceeded
}

func (s *script) Start() error {
	s.started = true
	return nil
}

func (s *script) Send(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, string(message))
	return s.refuse
}

func (s *script) Hangup(err error) {
	s.hangup = err
	close(s.hungUp)
}

// model fails with err, once gate, unless nil, is closed.
type model struct {
	err  error
	gate chan struct{}
}

func (m model) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	if m.gate != nil {
		<-m.gate
	}
	return make([]float32, len(batch)), m.err
}

type runes struct{}

func (runes) IDsContext(ctx context.Context, text string) ([]int32, error) {
	return []rune(text), ctx.Err()
}
func (runes) Frame(ids []int32) []int32 { return ids }
func (runes) Special() int              { return 0 }

type opener struct{ *rewardmodel.Scorer }

func (o opener) Live(ctx context.Context, r rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	session, err := o.Scorer.Live(ctx, r)
	return session, func() {}, err
}

func TestServe(t *testing.T) {
	const open, text, closing = `{"open":{}}`, `{"text":"One sentence here. Another one there. "}`, `{"close":{}}`
	gone := errors.Join(errors.New("reset"), context.Canceled)
	for _, test := range []struct {
		name    string
		stream  *script
		model   model
		started bool
		err     error  // or:
		says    string // the error
		sent    []string
	}{
		{"closed by the client", newScript(nil, open, text, closing), model{}, true, nil, "", []string{"utterance", "utterance", "result"}},
		{"closed by the end", newScript(io.EOF, open, text), model{}, true, nil, "", []string{"utterance", "utterance", "result"}},
		{"empty", newScript(io.EOF, open), model{}, true, nil, "", []string{"result"}},
		{"text after the close", newScript(nil, open, closing, text), model{}, true, nil, "", []string{"result"}},
		{"nothing", newScript(io.EOF), model{}, false, nil, "the stream ends before", nil},
		{"no open", newScript(io.EOF, text), model{}, false, nil, "the first message is not", nil},
		{"open twice", newScript(io.EOF, open, open), model{}, true, nil, "the session is open", []string{"error"}},
		{"leaves", newScript(gone, open, text), model{}, true, context.Canceled, "", nil},
		{"leaves after the close", newScript(gone, open, text, closing), model{gate: make(chan struct{})}, true, context.Canceled, "", nil},
		{"idle", newScript(nil, open), model{}, true, live.ErrIdle, "", []string{"error"}},
		{"the model fails", newScript(nil, open, text, closing), model{err: io.ErrNoProgress}, true, rewardmodel.ErrModel, "", []string{"error"}},
		{"does not read", &script{receive: []string{open, text}, refuse: os.ErrDeadlineExceeded, hungUp: make(chan struct{})}, model{}, true, context.DeadlineExceeded, "does not read", []string{"utterance"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "m", Version: "v1"}, test.model, runes{}, nil)
			require.NoError(t, err)
			defer scorer.Close()
			sessions := live.New(opener{scorer}, live.Limits{Idle: 100 * time.Millisecond})
			defer sessions.Close()
			ctx, x := exchange.Begin(t.Context(), exchange.Identity{}, "", nil, &exchange.Settings{RequestTimeout: time.Minute})
			require.NotNil(t, x)
			err = Serve(ctx, sessions, test.stream, "test")
			if test.model.gate != nil {
				close(test.model.gate)
			}
			require.Equal(t, test.started, test.stream.started)
			if test.err == nil && test.says == "" {
				require.NoError(t, err)
			} else {
				require.True(t, test.err == nil || errors.Is(err, test.err), "%v", err)
				require.ErrorContains(t, err, test.says)
			}
			if errors.Is(test.err, context.Canceled) {
				return // what is sent in the meantime does not matter
			}
			require.Len(t, test.stream.sent, len(test.sent), "%v", test.stream.sent)
			for i, kind := range test.sent {
				require.True(t, strings.HasPrefix(test.stream.sent[i], `{"`+kind+`"`), "%s", test.stream.sent[i])
			}
			if test.started {
				require.Equal(t, err, test.stream.hangup)
			}
		})
	}
}
