package queue

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"assay/rewardmodel"
	"assay/rewardmodel/live"
)

// maxLivePending is how many messages of one session may wait for their turn. A client
// that waits for replies has one.
const maxLivePending = 1024

// liveSessions are the live sessions that this replica opened over NATS. Each message
// of a session has a request, which is replied to once the utterances that it settles
// are scored. Messages of a session are handled in the order of their arrival, and
// sessions concurrently.
type liveSessions struct {
	prefix string // of the subject of a session, which only this replica subscribes to

	mu       sync.Mutex
	sessions map[string]*liveSession // by the last token of the subject
	causes   map[string]error        // of sessions that ended by themselves, also by the token
	watchers sync.WaitGroup          // one for each session
}

// causeKept is how long messages to a session that ended by itself get the reason; then
// they get errNoSession.
const causeKept = time.Minute

// newLiveSessions returns no sessions yet. Tokens of subjects cannot be guessed: a
// client can use only the sessions that it opened.
func newLiveSessions() *liveSessions {
	return &liveSessions{prefix: SubjectLive + "." + rand.Text() + ".", sessions: map[string]*liveSession{}, causes: map[string]error{}}
}

// liveSession is a session and what waits for it.
type liveSession struct {
	subject string
	session *live.Session

	mu       sync.Mutex
	pending  []liveRequest
	working  bool   // a goroutine handles pending
	sequence uint64 // of the last message
	ended    error  // why it accepts no more, or nil
}

// liveRequest is a message of a session.
type liveRequest struct {
	micro.Request
	memory *rewardmodel.Reservation // of the message and its reply
}

// errNoSession replies to a message on a subject without a session.
var errNoSession = &rewardmodel.InputError{Kind: rewardmodel.KindNotFound,
	Message: "the session has ended; open another one on " + SubjectLive + " and send the text from the beginning"}

// add registers a session, until it has ended. It owns memory, which the session holds.
func (l *liveSessions) add(session *live.Session, memory *rewardmodel.Reservation) *liveSession {
	token := rand.Text()
	s := &liveSession{subject: l.prefix + token, session: session}
	l.mu.Lock()
	l.sessions[token] = s
	l.mu.Unlock()
	l.watchers.Go(func() {
		<-session.Done()
		cause := session.Cause()
		if cause != nil {
			s.fail(cause)
		}
		l.remove(token, cause)
		memory.Close()
	})
	return s
}

// remove removes a session that has ended, and keeps its cause for causeKept, if it has
// one.
func (l *liveSessions) remove(token string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, token)
	if cause == nil {
		return
	}
	l.causes[token] = cause
	time.AfterFunc(causeKept, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.causes, token)
	})
}

// find returns the session of a subject. Without one, the error is why it has ended, or
// errNoSession.
func (l *liveSessions) find(subject string) (*liveSession, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	token := strings.TrimPrefix(subject, l.prefix)
	if s := l.sessions[token]; s != nil {
		return s, nil
	}
	return nil, cmp.Or(l.causes[token], error(errNoSession))
}

// end ends all sessions and waits until they are removed.
func (l *liveSessions) end() {
	l.mu.Lock()
	for _, s := range l.sessions {
		s.session.End()
	}
	l.mu.Unlock()
	l.watchers.Wait()
}

// accept queues a message. It reports whether the caller must start a goroutine that
// calls take until nothing is left.
func (s *liveSession) accept(r liveRequest) (start bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended != nil:
		return false, s.ended
	case len(s.pending) >= maxLivePending:
		return false, &rewardmodel.OverloadedError{Reason: fmt.Sprintf("%d messages of the session wait to be scored; wait for replies", len(s.pending))}
	}
	if err := s.follows(r.Headers().Get(HeaderSequence)); err != nil {
		return false, err
	}
	s.pending = append(s.pending, r)
	start, s.working = !s.working, true
	return start, nil
}

// follows checks the sequence of a message, if it has one, and counts it.
func (s *liveSession) follows(header string) error {
	s.sequence++
	if header == "" {
		return nil
	}
	n, err := strconv.ParseUint(header, 10, 64)
	switch {
	case err != nil:
		return rewardmodel.Invalidf(HeaderSequence, "%.40q is not an integer; number the messages of a session from 1", header)
	case n != s.sequence:
		return rewardmodel.Invalidf(HeaderSequence, "message %d arrived where %d was expected: a message was lost or sent twice; open another session and send the text from the beginning", n, s.sequence)
	}
	return nil
}

// take returns the messages that wait, or nil if there is none; then the goroutine that
// called it must return.
func (s *liveSession) take() []liveRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.pending
	s.pending = nil
	s.working = len(batch) > 0
	return batch
}

// fail ends the session. Messages that wait and those that arrive until it is removed
// are replied to with err.
func (s *liveSession) fail(err error) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = err
	}
	s.mu.Unlock()
	s.session.End()
}

// failure is why the session accepts no more messages, or nil.
func (s *liveSession) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
