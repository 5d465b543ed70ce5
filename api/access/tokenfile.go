package access

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/api/internal/exchange"
	"assay/api/internal/quota"
	"assay/internal/filewatch"
)

const (
	// minToken is the minimum length against guessing: 16 characters of base64 are
	// 96 bits.
	minToken = 16
	maxToken = 4096
	maxName  = 64
)

// usage is the format of a line.
const usage = "write TOKEN SCOPE[,SCOPE...] [NAME] [LIMIT=VALUE...]"

// parseTokens parses a token file. Its errors name lines and columns but never quote
// them: no secret may get into the log if a user swaps the columns.
func parseTokens(r io.Reader) ([]grant, error) {
	var grants []grant
	lines := map[string]int{}
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
		credential := hex.EncodeToString(g.sum[:]) + g.certificate.String()
		if before, twice := lines[credential]; twice {
			return nil, fmt.Errorf("line %d: the token of line %d again; give every token one line with all its scopes", number, before)
		}
		lines[credential] = number
		grants = append(grants, g)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(grants) == 0 {
		return nil, errors.New("it contains no token; write lines of TOKEN SCOPE[,SCOPE...] [NAME] [LIMIT=VALUE...]")
	}
	return grants, nil
}

func parseGrant(columns []string) (g grant, err error) {
	columns, limits, err := splitLimits(columns)
	switch {
	case err != nil:
		return grant{}, err
	case len(columns) < 2:
		return grant{}, errors.New("the scopes are missing; " + usage)
	case len(columns) > 3:
		return grant{}, errors.New("there are more than three columns before the limits; " + usage + ", without spaces inside")
	}
	if err := g.parseCredential(columns[0]); err != nil {
		return grant{}, err
	}
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
	if limits != (quota.Limits{}) {
		g.quota = quota.New(limits)
	}
	switch {
	case len(g.name) > maxName || !exchange.IsIdentifier(g.name):
		return grant{}, fmt.Errorf("the name in the third column is invalid; use up to %d letters, digits and -_.:/+=@", maxName)
	case slices.Contains([]string{callerLocal, callerAny, callerOwner, callerGate}, g.name):
		return grant{}, fmt.Errorf("the name %s is reserved for callers without a token, the owner of a private service, or the service itself; choose another", g.name)
	}
	return g, nil
}

// parseCredential sets the token or certificate of a grant, and its default name.
func (g *grant) parseCredential(text string) error {
	if name, ok := strings.CutPrefix(text, "cert:"); ok {
		if g.certificate, ok = parseCertificateName(name); !ok {
			return errors.New("the first column is not the name of a certificate; write cert:cn=NAME, cert:dns=NAME or cert:uri=URI")
		}
		sum := sha256.Sum256([]byte(name))
		g.name = hex.EncodeToString(sum[:4])
		return nil
	}
	if digits, ok := strings.CutPrefix(text, "sha256:"); ok {
		n, err := hex.Decode(g.sum[:], []byte(digits[:min(len(digits), 2*sha256.Size)]))
		if err != nil || n != sha256.Size || len(digits) != 2*sha256.Size {
			return fmt.Errorf("the hash in the first column is invalid; write sha256: and %d hexadecimal digits", 2*sha256.Size)
		}
	} else {
		if err := checkToken(text); err != nil {
			return err
		}
		g.sum = sha256.Sum256([]byte(text))
	}
	g.name = hex.EncodeToString(g.sum[:4])
	return nil
}

func checkToken(token string) error {
	switch {
	case strings.ContainsFunc(strings.TrimRight(token, "="), notInToken):
		return errors.New("the token has a character that is not allowed in a bearer token; use letters, digits and -._~+/")
	case len(token) < minToken:
		return fmt.Errorf("the token has %d characters; use at least %d, for example the output of: openssl rand -hex 24", len(token), minToken)
	case len(token) > maxToken:
		return fmt.Errorf("the token has %d characters; use at most %d", len(token), maxToken)
	}
	return nil
}

func notInToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~+/", r)
}

// splitLimits parses the columns from the first limit on, and returns those before it.
func splitLimits(columns []string) (before []string, limits quota.Limits, err error) {
	first := slices.IndexFunc(columns, isLimit)
	if first < 0 {
		return columns, limits, nil
	}
	given := map[string]bool{}
	for _, column := range columns[first:] {
		if !isLimit(column) {
			return nil, limits, errors.New("a column after the limits is not a limit; write the limits last: rate=N/s, labels=N/h, concurrent=N and body=BYTES")
		}
		name, value, _ := strings.Cut(column, "=")
		if given[name] {
			return nil, limits, fmt.Errorf("the limit %s is given twice", name)
		}
		given[name] = true
		switch name {
		case "rate":
			limits.Requests, err = parseRate(name, value)
		case "labels":
			limits.Labels, err = parseRate(name, value)
		case "concurrent":
			limits.Concurrent, err = parseCount(name, value, "a number")
		case "body":
			limits.MaxBody, err = parseBytes(value)
		}
		if err != nil {
			return nil, limits, err
		}
	}
	return columns[:first], limits, nil
}

func isLimit(column string) bool {
	name, _, found := strings.Cut(column, "=")
	return found && slices.Contains([]string{"rate", "labels", "concurrent", "body"}, name)
}

func parseRate(name, value string) (quota.Rate, error) {
	number, unit, _ := strings.Cut(value, "/")
	per, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
	n, err := parseCount(name, number, "N/s, N/m, N/h or N/d")
	switch {
	case err != nil:
		return quota.Rate{}, err
	case !ok:
		return quota.Rate{}, fmt.Errorf("the limit %s has no unit of time; write %s=N/s, N/m, N/h or N/d", name, name)
	}
	return quota.Rate{N: int(n), Per: per}, nil
}

func parseBytes(value string) (int64, error) {
	scale := int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if number, ok := strings.CutSuffix(value, suffix); ok {
			value, scale = number, factor
			break
		}
	}
	n, err := parseCount("body", value, "bytes, such as 1048576 or 8MiB")
	return n * scale, err
}

func parseCount(name, value, format string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("the value of the limit %s is invalid; give %s, at least 1", name, format)
	}
	return n, nil
}
