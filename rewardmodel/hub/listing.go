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

// Bounds of what a hub may answer.
const (
	maxAnswer = 64 << 20
	maxPages  = 100
)

// pattern of names; each is checked where it comes in.
var (
	repoPattern     = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9_][\w./+-]{0,254}$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// checkRepo refuses what is no name of a repository.
func checkRepo(repo string) error {
	if !repoPattern.MatchString(repo) || strings.Contains(repo, "..") || strings.Contains(repo, "--") {
		return fmt.Errorf("%.200q is no repository; want ORG/NAME, such as FacebookAI/roberta-base: %w", repo, ErrInvalid)
	}
	return nil
}

func checkRevision(revision string) error {
	if !revisionPattern.MatchString(revision) || strings.Contains(revision, "..") {
		return fmt.Errorf("%.200q is no revision; want a branch, a tag or a commit: %w", revision, ErrInvalid)
	}
	return nil
}

// model is what the hub says of a revision.
type model struct {
	ID     string         `json:"id"`
	Commit string         `json:"sha"`
	Card   jsontext.Value `json:"cardData"` // written by hand: it may be anything
}

// license is what the model card names, "" when it does not name one.
func (m model) license() string {
	var card struct {
		License string `json:"license"`
	}
	_ = json.Unmarshal(m.Card, &card)
	return card.License
}

// resolve asks for the commit of a branch, tag or abbreviated commit.
func (c *Client) resolve(ctx context.Context, repo, revision string) (model, error) {
	u := c.endpoint.JoinPath("api/models", repo, "revision", url.PathEscape(revision))
	body, _, err := c.small(ctx, repo, u, maxAnswer)
	if err != nil {
		return model{}, err
	}
	var m model
	if err := json.Unmarshal(body, &m); err != nil || !commitPattern.MatchString(m.Commit) {
		return model{}, fmt.Errorf("%s does not name the commit of %s at %s; is it a Hugging Face hub? %w", c.endpoint.Host, repo, revision, ErrUnavailable)
	}
	if commitPattern.MatchString(revision) && m.Commit != revision {
		return model{}, fmt.Errorf("%s: asked for the commit %s, %s gives %s: %w", repo, revision, c.endpoint.Host, m.Commit, ErrChecksum)
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

// list returns the files at the top of the repository by name. What lies in its
// folders is none of a checkpoint's.
func (c *Client) list(ctx context.Context, repo, commit string) (map[string]File, error) {
	files := map[string]File{}
	next := c.endpoint.JoinPath("api/models", repo, "tree", commit)
	for range maxPages {
		body, header, err := c.small(ctx, repo, next, maxAnswer)
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
			return nil, fmt.Errorf("the list of %s goes on at no address: %w", repo, ErrUnavailable)
		}
		// A mirror may pass on the address of what it mirrors.
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
			return fmt.Errorf("file %q is there twice: %w", f.Name, ErrUnavailable)
		}
		files[f.Name] = f
	}
	return nil
}

// nextPage reads the Link header of RFC 8288, as far as hubs use it.
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

// converted looks for the pull request in which the hub's bot offers the
// weights as safetensors; 0 when it is not there or cannot be found. Only the
// bot's is named, as anyone can open one.
func (c *Client) converted(ctx context.Context, repo string) int {
	u := c.endpoint.JoinPath("api/models", repo, "discussions")
	u.RawQuery = url.Values{"type": {"pull_request"}, "author": {"SFconvertbot"}}.Encode()
	body, _, err := c.small(ctx, repo, u, maxAnswer)
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
