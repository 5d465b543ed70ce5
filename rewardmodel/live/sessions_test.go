package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/rewardmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a tokenizer with one token per word: its length. It panics at a text with
// panics.
type words struct{}

const panics = "tokenizer panics"

func (words) IDsContext(ctx context.Context, text string) ([]int32, error) {
	if strings.Contains(text, panics) {
		panic(panics)
	}
	var ids []int32
	for word := range strings.FieldsSeq(text) {
		ids = append(ids, int32(len(word)))
	}
	return ids, ctx.Err()
}

func (words) Frame(ids []int32) []int32 { return append(append([]int32{0}, ids...), 2) }
func (words) Special() int              { return 2 }

// model scores everything with one margin. If gate is not nil, a batch waits for it.
type model struct{ gate chan struct{} }

func (m model) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	if m.gate != nil {
		<-m.gate
	}
	margins := make([]float32, len(batch))
	for i := range margins {
		margins[i] = 5
	}
	return margins, nil
}

// source opens the sessions of one scorer and counts those that are not released.
type source struct {
	scorer *rewardmodel.Scorer
	pinned atomic.Int64
	err    error
	panics bool
}

func (s *source) Live(ctx context.Context, r rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	if s.panics {
		panic(panics)
	}
	if s.err != nil {
		return nil, nil, s.err
	}
	session, err := s.scorer.Live(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	s.pinned.Add(1)
	var once sync.Once
	return session, func() {
		done := false
		once.Do(func() { s.pinned.Add(-1); done = true })
		if !done {
			panic("released twice")
		}
	}, nil
}

func newSource(t *testing.T, m model) *source {
	t.Helper()
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, m, words{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	return &source{scorer: scorer}
}

func ended(t *testing.T, s *Sessions, outcome string) float64 {
	t.Helper()
	return testutil.ToFloat64(s.metrics.ended.WithLabelValues(outcome))
}

func isDone(s *Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// A client that leaves while its text is being scored has abandoned the session.
func TestClientLeavesDuringACall(t *testing.T) {
	s := New(newSource(t, model{}), Limits{})
	session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err = session.Feed(ctx, "They are awful. And so on.")
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, isDone(session))
	require.Equal(t, 1.0, ended(t, s, outcomeAbandoned))
	require.Zero(t, ended(t, s, outcomeFailed))
}

func TestSession(t *testing.T) {
	from := newSource(t, model{})
	s := New(from, Limits{})
	session, err := s.Open(t.Context(), rewardmodel.LiveRequest{ID: "x"})
	require.NoError(t, err)
	require.Equal(t, "x", session.ID())
	require.Equal(t, 1.0, testutil.ToFloat64(s.metrics.open))
	events, err := session.Feed(t.Context(), "They are awful. <think>")
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.True(t, events[0].Stop)
	require.False(t, isDone(session))
	_, answer, err := session.Close(t.Context())
	require.NoError(t, err)
	require.False(t, answer.Results[0].Compliant)
	require.True(t, isDone(session))
	require.NoError(t, session.Cause())
	session.End()
	_, err = session.Feed(t.Context(), "a")
	require.ErrorIs(t, err, ErrEnded)
	_, _, err = session.Close(t.Context())
	require.ErrorIs(t, err, ErrEnded)
	require.Zero(t, from.pinned.Load())
	require.Equal(t, 1.0, ended(t, s, "closed"))
	require.Equal(t, 1.0, testutil.ToFloat64(s.metrics.stops))
	require.Equal(t, 5.0, testutil.ToFloat64(s.metrics.completed))
	require.Zero(t, testutil.ToFloat64(s.metrics.open))
	require.NoError(t, prometheus.NewPedanticRegistry().Register(s))
	problems, err := testutil.CollectAndLint(s)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTooManySessions(t *testing.T) {
	from := newSource(t, model{})
	s := New(from, Limits{Sessions: 2})
	var open []*Session
	for range 2 {
		session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
		require.NoError(t, err)
		open = append(open, session)
	}
	_, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
	var full *rewardmodel.OverloadedError
	require.True(t, errors.As(err, &full), "%v", err)
	require.Positive(t, full.RetryAfter)
	require.Equal(t, 1.0, ended(t, s, "refused"))
	open[0].End()
	session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
	require.NoError(t, err)
	session.End()
	open[1].End()
	from.err = rewardmodel.ErrNotReady
	for range 3 { // a session that cannot be opened takes no place
		_, err = s.Open(t.Context(), rewardmodel.LiveRequest{})
		require.ErrorIs(t, err, rewardmodel.ErrNotReady)
	}
	require.Zero(t, s.count)
	require.Zero(t, from.pinned.Load())
	require.Equal(t, 3.0, ended(t, s, "abandoned"))
}

func TestTooManyBytes(t *testing.T) {
	from := newSource(t, model{})
	s := New(from, Limits{Bytes: 10})
	session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
	require.NoError(t, err)
	_, err = session.Feed(t.Context(), "0123456789")
	require.NoError(t, err)
	_, err = session.Feed(t.Context(), "a")
	var input *rewardmodel.InputError
	require.True(t, errors.As(err, &input), "%v", err)
	require.Equal(t, rewardmodel.KindTooLarge, input.Kind)
	require.Equal(t, "text", input.Field)
	require.True(t, isDone(session))
	require.Zero(t, from.pinned.Load())
	require.Equal(t, 1.0, ended(t, s, "failed"))
}

func TestIdleSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newSource(t, model{})
		s := New(from, Limits{Idle: time.Minute})
		session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
		require.NoError(t, err)
		for range 3 {
			<-time.After(59 * time.Second)
			_, err = session.Feed(t.Context(), "a")
			require.NoError(t, err)
		}
		session.expire() // the timer fires while text arrives
		require.False(t, isDone(session))
		<-time.After(59 * time.Second)
		_, err = session.Feed(t.Context(), "") // is no text
		require.NoError(t, err)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.True(t, isDone(session))
		require.Zero(t, from.pinned.Load())
		require.ErrorIs(t, session.Cause(), ErrIdle)
		_, err = session.Feed(t.Context(), "a")
		require.ErrorIs(t, err, ErrIdle)
		session.End()
		require.Equal(t, 1.0, ended(t, s, "idle"))
		from.scorer.Close()
	})
}

// When all sessions are open, one that receives next to nothing makes room for another.
func TestSlowSessionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newSource(t, model{})
		s := New(from, Limits{Sessions: 3, Idle: time.Minute})
		open := func() *Session {
			session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
			require.NoError(t, err)
			return session
		}
		feed := func(session *Session, bytes int) {
			_, err := session.Feed(t.Context(), strings.Repeat("a ", bytes/2))
			require.NoError(t, err)
		}
		trickle, steady, paused := open(), open(), open()
		for range 3 {
			<-time.After(59 * time.Second)
			feed(trickle, 2)
			feed(steady, 300)
			feed(paused, 2)
		}
		feed(paused, 300) // no longer slow
		another := open()
		require.True(t, isDone(trickle))
		require.ErrorIs(t, trickle.Cause(), ErrIdle)
		require.False(t, isDone(steady) || isDone(paused))
		_, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
		require.ErrorIs(t, err, rewardmodel.ErrOverloaded, "none is slow, and a new one has time")
		require.Equal(t, 1.0, ended(t, s, "idle"))
		require.Equal(t, 1.0, ended(t, s, "refused"))
		for _, session := range []*Session{trickle, steady, paused, another} {
			session.End()
		}
		require.Zero(t, from.pinned.Load())
		from.scorer.Close()
	})
}

// A call that takes longer than the idle timeout is not idle, and the model stays loaded
// until it has returned.
func TestEndDuringFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		from := newSource(t, model{gate})
		s := New(from, Limits{Idle: time.Minute})
		for _, end := range []struct {
			by   func(*Session)
			want error
		}{{(*Session).End, ErrEnded}, {func(*Session) { s.Close() }, rewardmodel.ErrClosed}} {
			session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
			require.NoError(t, err)
			failed := make(chan error)
			go func() {
				_, err := session.Feed(t.Context(), "They are awful. <think>")
				failed <- err
			}()
			<-time.After(10 * time.Minute)
			synctest.Wait()
			require.False(t, isDone(session))
			end.by(session)
			require.True(t, isDone(session))
			require.ErrorIs(t, <-failed, end.want)
			require.Zero(t, from.pinned.Load())
		}
		_, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
		require.ErrorIs(t, err, rewardmodel.ErrClosed)
		require.Equal(t, 1.0, ended(t, s, "shutdown"))
		close(gate)
		from.scorer.Close()
	})
}

// A panic, which the transports recover from, leaves nothing behind.
func TestPanics(t *testing.T) {
	from := newSource(t, model{})
	s := New(from, Limits{})
	for name, feed := range map[string]func(*Session) error{
		"feed": func(session *Session) error {
			_, err := session.Feed(t.Context(), panics+". <think>")
			return err
		},
		"close": func(session *Session) error {
			if _, err := session.Feed(t.Context(), panics); err != nil {
				return err
			}
			_, _, err := session.Close(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			session, err := s.Open(t.Context(), rewardmodel.LiveRequest{})
			require.NoError(t, err)
			require.PanicsWithValue(t, panics, func() { t.Error(feed(session)) })
			require.True(t, isDone(session))
			require.ErrorIs(t, feed(session), ErrEnded)
			session.End()
		})
	}
	require.Equal(t, 2.0, ended(t, s, "failed"))
	from.panics = true
	require.PanicsWithValue(t, panics, func() { _, err := s.Open(t.Context(), rewardmodel.LiveRequest{}); t.Error(err) })
	require.Equal(t, 1.0, ended(t, s, "refused"))
	require.Zero(t, s.count)
	require.Zero(t, from.pinned.Load())
}

// Many sessions at the same time, which end in every way, leave nothing behind.
func TestManySessions(t *testing.T) {
	const sessions = 10000
	from := newSource(t, model{})
	memory, err := rewardmodel.NewMemory(1<<30, nil)
	require.NoError(t, err)
	s := New(from, Limits{Sessions: sessions, Bytes: 64})
	open := make([]*Session, sessions)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < sessions; i += 8 {
				held := memory.Open()
				t.Cleanup(held.Close)
				session, err := s.Open(t.Context(), rewardmodel.LiveRequest{ID: "the same", Memory: held})
				if err != nil {
					t.Error(err)
					return
				}
				open[i] = session
				if _, err := session.Feed(t.Context(), fmt.Sprintf("never a sentence end %d \xe4", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	_, err = s.Open(t.Context(), rewardmodel.LiveRequest{})
	require.ErrorIs(t, err, rewardmodel.ErrOverloaded)
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < sessions; i += 8 {
				switch i % 4 {
				case 0:
					if _, _, err := open[i].Close(t.Context()); err != nil {
						t.Error(err)
					}
				case 1:
					open[i].End()
				case 2:
					if _, err := open[i].Feed(t.Context(), strings.Repeat("a", 65)); err == nil {
						t.Error("no error beyond the limit")
					}
				}
			}
		})
	}
	all.Wait()
	s.Close()
	require.Zero(t, from.pinned.Load())
	require.Zero(t, s.count)
	for _, outcome := range []string{"closed", "abandoned", "failed", "shutdown"} {
		require.Equal(t, float64(sessions/4), ended(t, s, outcome), outcome)
	}
}
