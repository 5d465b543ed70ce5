package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"sync"
	"time"
)

const (
	// Cookie is the name of the cookie with the id of a session.
	Cookie = "assay_session"
	// CSRFHeader is the header with the CSRF token of a session. Requests that change
	// something need it, because a browser sends the cookie by itself.
	CSRFHeader = "X-CSRF-Token"
	// Lifetime is how long a session lasts.
	Lifetime = 12 * time.Hour
	// MaxPerToken is the maximum number of sessions of one token; the oldest one ends
	// when another is opened. It bounds the memory by the number of tokens, and one
	// token cannot end the sessions of another.
	MaxPerToken = 32
)

// Session is a browser that presented a token.
type Session struct {
	Token   [sha256.Size]byte // hash of the token, whose scopes the session has
	CSRF    string            // 256 bits
	Expires time.Time
}

// Sessions are the open sessions of this process. They end with it.
type Sessions struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]Session // by the hash of the id, so that the time of a lookup reveals nothing about ids
}

// NewSessions returns no sessions.
func NewSessions() *Sessions {
	return &Sessions{byHash: map[[sha256.Size]byte]Session{}}
}

// Open starts a session for a token, given by its hash, and returns its id of 256
// random bits.
func (s *Sessions) Open(token [sha256.Size]byte) (id string, opened Session) {
	id = secret()
	opened = Session{Token: token, CSRF: secret(), Expires: time.Now().Add(Lifetime)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(token)
	s.byHash[sha256.Sum256([]byte(id))] = opened
	return id, opened
}

// prune removes the expired sessions, and makes room for one more of a token.
func (s *Sessions) prune(token [sha256.Size]byte) {
	now := time.Now()
	maps.DeleteFunc(s.byHash, func(_ [sha256.Size]byte, session Session) bool { return !now.Before(session.Expires) })
	var count int
	var oldest [sha256.Size]byte
	var expires time.Time
	for hash, session := range s.byHash {
		if session.Token != token {
			continue
		}
		count++
		if expires.IsZero() || session.Expires.Before(expires) {
			oldest, expires = hash, session.Expires
		}
	}
	if count >= MaxPerToken {
		delete(s.byHash, oldest)
	}
}

// Find returns an open session.
func (s *Sessions) Find(id string) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.byHash[sha256.Sum256([]byte(id))]
	return session, ok && time.Now().Before(session.Expires)
}

// End ends a session, if it is open.
func (s *Sessions) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byHash, sha256.Sum256([]byte(id)))
}

// secret returns 256 random bits as text.
func secret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}
