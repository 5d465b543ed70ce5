package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/internal/filewatch"
)

// Scope is a permission of a token.
type Scope string

// The scopes. Only admin includes the others.
const (
	ScopeScore    Scope = "score"    // score, and list models
	ScopeFeedback Scope = "feedback" // send labels, and see training and events
	ScopeAdmin    Scope = "admin"    // erase labels, start training, promote, roll back, and all of the above
)

const (
	// minToken is the minimum length against guessing: 16 characters of base64 are
	// 96 bits.
	minToken = 16
	maxToken = 4096
	maxName  = 64
)

// Names of callers without a token, of the owner of a private service, and of the
// service itself. No token of a file may have them.
const (
	callerLocal = "loopback"  // a caller on the same machine
	callerAny   = "anonymous" // any caller, with Config.Insecure
	callerOwner = "owner"     // has the token of a private service
	callerGate  = "gate"      // promoted or rejected a model
)

// Tokens are the bearer tokens of a file, one per line:
//
//	TOKEN SCOPE[,SCOPE...] [NAME]
//
// The scopes are score, feedback and admin. NAME identifies the caller in logs and
// in the record of a model; the default is the first eight hexadecimal digits of the
// token's SHA-256. Text after a # is a comment. A token has at least 16 of the
// characters of a bearer token (RFC 6750: letters, digits and -._~+/, then =).
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

// grant is what a token allows.
type grant struct {
	sum    [sha256.Size]byte
	scopes []Scope
	name   string
}

// require returns an error if the grant does not allow scope.
func (g grant) require(scope Scope) error {
	if slices.Contains(g.scopes, scope) || slices.Contains(g.scopes, ScopeAdmin) {
		return nil
	}
	return failure.InsufficientScope(string(scope))
}

// LoadTokens reads a token file. The error names the invalid line, and never quotes
// it.
func LoadTokens(path string, log zerolog.Logger) (*Tokens, error) {
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

// LoadPrivateTokens returns the tokens of a private service: that of its owner, with
// the scope admin, and those of a token file, unless path is empty.
func LoadPrivateTokens(owner, path string, log zerolog.Logger) (*Tokens, error) {
	g, err := parseGrant([]string{owner, string(ScopeAdmin)})
	if err != nil {
		return nil, fmt.Errorf("the private token: %w", err)
	}
	g.name = callerOwner
	t := &Tokens{log: log}
	if path != "" {
		if t, err = LoadTokens(path, log); err != nil {
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

// replace applies the tokens of the file.
func (t *Tokens) replace(list []grant) {
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

// changed returns a channel that is closed when the tokens change. Without tokens it
// never is.
func (t *Tokens) changed() <-chan struct{} {
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
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], g.sum[:]), i, found)
	}
	if found < 0 {
		return grant{}, false
	}
	return grants[found], true
}

// parseTokens parses a token file. Its errors name lines and columns but never quote
// them: no secret may get into the log if a user swaps the columns.
func parseTokens(r io.Reader) ([]grant, error) {
	var grants []grant
	lines := map[[sha256.Size]byte]int{}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, filewatch.MaxBytes+1)
	for number := 1; scanner.Scan(); number++ {
		text, _, _ := strings.Cut(scanner.Text(), "#")
		columns := strings.Fields(text)
		if len(columns) == 0 {
			continue
		}
		g, err := parseGrant(columns)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if before, twice := lines[g.sum]; twice {
			return nil, fmt.Errorf("line %d: the token of line %d again; give every token one line with all its scopes", number, before)
		}
		lines[g.sum] = number
		grants = append(grants, g)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(grants) == 0 {
		return nil, errors.New("it contains no token; write lines of TOKEN SCOPE[,SCOPE...] [NAME]")
	}
	return grants, nil
}

func parseGrant(columns []string) (grant, error) {
	token := columns[0]
	switch {
	case len(columns) < 2:
		return grant{}, errors.New("the scopes are missing; write TOKEN SCOPE[,SCOPE...] [NAME]")
	case len(columns) > 3:
		return grant{}, errors.New("there are more than three columns; write TOKEN SCOPE[,SCOPE...] [NAME], without spaces inside")
	case strings.ContainsFunc(strings.TrimRight(token, "="), notInToken):
		return grant{}, errors.New("the token has a character that is not allowed in a bearer token; use letters, digits and -._~+/")
	case len(token) < minToken:
		return grant{}, fmt.Errorf("the token has %d characters; use at least %d, for example the output of: openssl rand -hex 24", len(token), minToken)
	case len(token) > maxToken:
		return grant{}, fmt.Errorf("the token has %d characters; use at most %d", len(token), maxToken)
	}
	g := grant{sum: sha256.Sum256([]byte(token))}
	g.name = hex.EncodeToString(g.sum[:4])
	for name := range strings.SplitSeq(columns[1], ",") {
		switch scope := Scope(name); scope {
		case ScopeScore, ScopeFeedback, ScopeAdmin:
			g.scopes = append(g.scopes, scope)
		default:
			return grant{}, errors.New("the second column is not a list of scopes; use score, feedback and admin, separated by commas")
		}
	}
	if len(columns) == 3 {
		g.name = columns[2]
	}
	switch {
	case len(g.name) > maxName || !exchange.IsIdentifier(g.name):
		return grant{}, fmt.Errorf("the name in the third column is invalid; use up to %d letters, digits and -_.:/+=@", maxName)
	case slices.Contains([]string{callerLocal, callerAny, callerOwner, callerGate}, g.name):
		return grant{}, fmt.Errorf("the name %s is reserved for callers without a token, the owner of a private service, or the service itself; choose another", g.name)
	}
	return g, nil
}

func notInToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~+/", r)
}
