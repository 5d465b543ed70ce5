package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a hub's response.
const (
	maxResponse = 64 << 20
	maxPages    = 100
)

// Patterns of names; each name is validated when it is received.
var (
	repoPattern     = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9_][\w./+-]{0,254}$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// checkRepo rejects an invalid name of a repository.
func checkRepo(repo string) error {
	if !repoPattern.MatchString(repo) || strings.Contains(repo, "..") || strings.Contains(repo, "--") {
		return fmt.Errorf("%.200q is not a repository; want ORG/NAME, such as FacebookAI/roberta-base: %w", repo, ErrInvalid)
	}
	return nil
}

func checkRevision(revision string) error {
	if !revisionPattern.MatchString(revision) || strings.Contains(revision, "..") {
		return fmt.Errorf("%.200q is not a revision; want a branch, a tag or a commit: %w", revision, ErrInvalid)
	}
	return nil
}

// model describes a revision in the hub's API.
type model struct {
	ID     string         `json:"id"`
	Commit string         `json:"sha"`
	Card   jsontext.Value `json:"cardData"` // written by people: it may be any JSON
}

// license is the license in the model card, "" without one.
func (m model) license() string {
	var card struct {
		License string `json:"license"`
	}
	_ = json.Unmarshal(m.Card, &card)
	return card.License
}

// resolve requests the commit of a branch, tag or abbreviated commit.
func (c *Client) resolve(ctx context.Context, repo, revision string) (model, error) {
	u := c.endpoint.JoinPath("api/models", repo, "revision", url.PathEscape(revision))
	body, _, err := c.getAll(ctx, repo, u, maxResponse)
	if err != nil {
		return model{}, err
	}
	var m model
	if err := json.Unmarshal(body, &m); err != nil || !commitPattern.MatchString(m.Commit) {
		return model{}, fmt.Errorf("%s does not name the commit of %s at %s; is it a Hugging Face hub? %w", c.endpoint.Host, repo, revision, ErrUnavailable)
	}
	if commitPattern.MatchString(revision) && m.Commit != revision {
		return model{}, fmt.Errorf("%s: requested the commit %s, %s returned %s: %w", repo, revision, c.endpoint.Host, m.Commit, ErrChecksum)
	}
	if checkRepo(m.ID) != nil {
		m.ID = repo
	}
	return m, nil
}

// entry is a line of the hub's tree.
type entry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"` // git's name of the blob
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// list returns the files at the top level of the repository by name. Files in its
// subdirectories do not belong to a checkpoint.
func (c *Client) list(ctx context.Context, repo, commit string) (map[string]File, error) {
	files := map[string]File{}
	next := c.endpoint.JoinPath("api/models", repo, "tree", commit)
	for range maxPages {
		body, header, err := c.getAll(ctx, repo, next, maxResponse)
		if err != nil {
			return nil, err
		}
		if err := parseTree(body, files); err != nil {
			return nil, fmt.Errorf("the list of %s from %s: %w", repo, next.Host, err)
		}
		link := nextPage(header)
		if link == "" {
			return files, nil
		}
		if next, err = next.Parse(link); err != nil {
			return nil, fmt.Errorf("the list of %s has an invalid link to the next page: %w", repo, ErrUnavailable)
		}
		// A mirror may forward the URL of the original hub.
		next.Scheme, next.Host, next.User = c.endpoint.Scheme, c.endpoint.Host, nil
	}
	return nil, fmt.Errorf("the list of %s has more than %d pages: %w", repo, maxPages, ErrUnavailable)
}

// parseTree adds the files of one page.
func parseTree(body []byte, files map[string]File) error {
	var entries []entry
	if err := json.Unmarshal(body, &entries); err != nil {
		return fmt.Errorf("%w: %w", err, ErrUnavailable)
	}
	for _, e := range entries {
		if err := checkPath(e.Path); err != nil {
			return err
		}
		if e.Type != "file" || strings.ContainsAny(e.Path, `/\:`) {
			continue
		}
		f := File{Name: e.Path, Size: e.Size, GitSHA1: e.OID}
		if e.LFS != nil {
			f = File{Name: e.Path, Size: e.LFS.Size, SHA256: e.LFS.OID}
		}
		if err := f.check(); err != nil {
			return err
		}
		if _, twice := files[f.Name]; twice {
			return fmt.Errorf("file %q is listed twice: %w", f.Name, ErrUnavailable)
		}
		files[f.Name] = f
	}
	return nil
}

// nextPage reads the part of RFC 8288's Link header that hubs use.
func nextPage(header http.Header) string {
	for _, line := range header.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			target, params, ok := strings.Cut(link, ";")
			target = strings.TrimSpace(target)
			if ok && strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=next") && len(target) > 2 && target[0] == '<' && target[len(target)-1] == '>' {
				return target[1 : len(target)-1]
			}
		}
	}
	return ""
}

// converted returns the number of the pull request in which the hub's bot offers
// the weights as safetensors, or 0 when there is none. It ignores those of other
// authors, because anyone can open one.
func (c *Client) converted(ctx context.Context, repo string) int {
	u := c.endpoint.JoinPath("api/models", repo, "discussions")
	u.RawQuery = url.Values{"type": {"pull_request"}, "author": {"SFconvertbot"}}.Encode()
	body, _, err := c.getAll(ctx, repo, u, maxResponse)
	if err != nil {
		return 0
	}
	var page struct {
		Discussions []struct {
			Number int    `json:"num"`
			Title  string `json:"title"`
			Status string `json:"status"`
			Author struct {
				Name string `json:"name"`
			} `json:"author"`
		} `json:"discussions"`
	}
	if json.Unmarshal(body, &page) != nil {
		return 0
	}
	for _, d := range page.Discussions {
		if d.Author.Name == "SFconvertbot" && d.Status != "closed" && strings.Contains(d.Title, "safetensors") {
			return d.Number
		}
	}
	return 0
}

// pullRequest is the revision of a pull request.
func pullRequest(number int) string { return "refs/pr/" + strconv.Itoa(number) }
