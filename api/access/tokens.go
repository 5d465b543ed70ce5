package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"assay/api/internal/failure"
	"assay/api/internal/quota"
	"assay/internal/filewatch"
	"assay/rewardmodel/feedback"
)

// Scope is a permission of a token.
type Scope string

// The scopes. Only admin includes the others.
const (
	ScopeScore    Scope = "score"    // score, and list models
	ScopeFeedback Scope = "feedback" // send labels, and see training and events
	ScopeAdmin    Scope = "admin"    // erase labels, start training, promote, roll back, and all of the above
)

// Names of callers without a token, of the owner of a private service, and of the
// service itself. No token of a file may have them.
const (
	callerLocal = feedback.ByLoopback  // a caller on the same machine
	callerAny   = feedback.ByAnonymous // any caller, with Authorizer.Insecure
	callerOwner = "owner"              // has the token of a private service
	callerGate  = "gate"               // promoted or rejected a model
)

// Tokens are the callers of a token file, one per line:
//
//	CREDENTIAL SCOPE[,SCOPE...] [NAME] [LIMIT=VALUE...]
//
// A credential is one of
//
//	TOKEN              a bearer token: at least 16 of the characters of RFC 6750
//	                   (letters, digits and -._~+/, then =)
//	sha256:HEX         the SHA-256 of a bearer token, so that the file reveals none
//	cert:cn=NAME       a client certificate whose subject has this common name
//	cert:dns=NAME      ... whose subject alternative names have this DNS name
//	cert:uri=URI       ... or this URI, such as a SPIFFE ID
//
// The scopes are score, feedback and admin. NAME identifies the caller in logs and
// in the record of a model; the default is the first eight hexadecimal digits of the
// SHA-256 of the token or certificate name. The limits are
//
//	rate=N/UNIT        requests per s, m, h or d
//	labels=N/UNIT      labels of feedback per s, m, h or d
//	concurrent=N       requests in flight
//	body=BYTES         size of a request, such as 1048576, 64KiB or 8MiB
//
// Text after a # is a comment.
//
// Only hashes of the tokens are held in memory, and they are compared in
// constant time.
type Tokens struct {
	file   *filewatch.File // nil: no file
	owner  []grant         // of a private service; not in a file
	log    zerolog.Logger
	grants atomic.Pointer[grants]
}

// grants are the grants of the file as last read.
type grants struct {
	list     []grant
	replaced chan struct{} // closed when they are replaced
}

// grant is what a credential allows.
type grant struct {
	sum         [sha256.Size]byte // of the token; unused for a certificate
	certificate certificateName   // zero for a token
	scopes      []Scope
	name        string
	quota       *quota.Quota // nil: no limits
	via         string       // how the caller presented it; set when it is found
}

// isSame reports whether two grants are of one credential.
func (g grant) isSame(other grant) bool {
	return g.sum == other.sum && g.certificate == other.certificate
}

// require returns an error if the grant does not allow scope.
func (g grant) require(scope Scope) error {
	if slices.Contains(g.scopes, scope) || slices.Contains(g.scopes, ScopeAdmin) {
		return nil
	}
	return failure.InsufficientScope(string(scope))
}

// Load reads a token file. The error names the invalid line, and never quotes
// it.
func Load(path string, log zerolog.Logger) (*Tokens, error) {
	t := &Tokens{file: filewatch.New(path), log: log}
	content, err := t.file.Read()
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	list, err := parseTokens(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	t.replace(list)
	return t, nil
}

// LoadPrivate returns the tokens of a private service: that of its owner, with
// the scope admin, and those of a token file, unless path is empty.
func LoadPrivate(owner, path string, log zerolog.Logger) (*Tokens, error) {
	g, err := parseGrant([]string{owner, string(ScopeAdmin)})
	if err != nil {
		return nil, fmt.Errorf("the private token: %w", err)
	}
	g.name = callerOwner
	t := &Tokens{log: log}
	if path != "" {
		if t, err = Load(path, log); err != nil {
			return nil, err
		}
	}
	t.owner = []grant{g}
	t.replace(t.list())
	return t, nil
}

// Count returns the number of tokens with each scope. A token with the scope admin
// counts only as such.
func (t *Tokens) Count() map[Scope]int {
	counts := map[Scope]int{}
	for _, g := range t.list() {
		if slices.Contains(g.scopes, ScopeAdmin) {
			counts[ScopeAdmin]++
			continue
		}
		for _, scope := range g.scopes {
			counts[scope]++
		}
	}
	return counts
}

// Watch applies changes of the file within about a second, until ctx ends. A file
// that cannot be read or has an invalid line leaves the tokens unchanged, and the
// log says why.
func (t *Tokens) Watch(ctx context.Context) {
	if t.file == nil {
		return
	}
	t.file.Watch(ctx, t.reload, func(err error) {
		t.log.Error().Err(err).Msg("the token file cannot be read; the tokens are unchanged")
	})
}

func (t *Tokens) reload(content []byte) {
	list, err := parseTokens(bytes.NewReader(content))
	if err != nil {
		t.log.Error().Err(err).Str("file", t.file.Path()).Msg("the token file is invalid; the tokens are unchanged")
		return
	}
	t.replace(list)
	t.log.Info().Int("tokens", len(list)).Str("file", t.file.Path()).Msg("the tokens changed")
}

// replace applies the tokens of the file. A line whose limits are unchanged keeps what
// its caller has used of them.
func (t *Tokens) replace(list []grant) {
	for i, g := range list {
		for _, before := range t.list() {
			if g.isSame(before) && g.quota.Limits() == before.quota.Limits() {
				list[i].quota = before.quota
			}
		}
	}
	before := t.grants.Swap(&grants{slices.Concat(list, t.owner), make(chan struct{})})
	if before != nil {
		close(before.replaced)
	}
}

func (t *Tokens) list() []grant {
	if now := t.grants.Load(); now != nil {
		return now.list
	}
	return nil
}

// Changed returns a channel that is closed when the tokens change. Without tokens it
// never is.
func (t *Tokens) Changed() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.grants.Load().replaced
}

// find returns the grant of a token. It takes the same time for every token of the
// file, and for an unknown one.
func (t *Tokens) find(token string) (grant, bool) {
	return t.findSum(sha256.Sum256([]byte(token)))
}

// findSum is find for the hash of a token.
func (t *Tokens) findSum(sum [sha256.Size]byte) (grant, bool) {
	grants := t.list()
	found := -1
	for i, g := range grants {
		if g.certificate.kind == "" {
			found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], g.sum[:]), i, found)
		}
	}
	if found < 0 {
		return grant{}, false
	}
	return grants[found], true
}

// findCertificate returns the grant of the first line that names a verified client
// certificate. A certificate that has expired since its connection was opened has none.
func (t *Tokens) findCertificate(certificate *x509.Certificate) (grant, bool) {
	if certificate == nil || time.Now().After(certificate.NotAfter) {
		return grant{}, false
	}
	for _, g := range t.list() {
		if g.certificate.matches(certificate) {
			return g, true
		}
	}
	return grant{}, false
}

// NamesCertificates reports whether a line names a client certificate.
func (t *Tokens) NamesCertificates() bool {
	return slices.ContainsFunc(t.list(), func(g grant) bool { return g.certificate.kind != "" })
}
