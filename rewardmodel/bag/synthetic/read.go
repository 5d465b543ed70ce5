package synthetic

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// lines yields the numbered lines of r, of any length, trimmed of white space;
// blank ones are skipped. Text that is not UTF-8 is an error.
func lines(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		buffered := bufio.NewReaderSize(r, 1<<16)
		for number := 1; ; number++ {
			line, err := buffered.ReadString('\n')
			if err != nil && err != io.EOF {
				yield("", err)
				return
			}
			if !utf8.ValidString(line) {
				yield("", fmt.Errorf("line %d is not UTF-8", number))
				return
			}
			if line = strings.TrimSpace(line); line != "" && !yield(line, nil) || err == io.EOF {
				return
			}
		}
	}
}

// ReadLines reads texts, one per line, trimmed of white space; blank lines are
// skipped. Text that is not UTF-8 is an error.
func ReadLines(r io.Reader) ([]string, error) {
	var out []string
	for line, err := range lines(r) {
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	return out, nil
}

// readSST reads "1 text" (positive) and "0 text" lines.
func readSST(r io.Reader) (Split, error) {
	var s Split
	for line, err := range lines(r) {
		if err != nil {
			return Split{}, err
		}
		label, text, _ := strings.Cut(line, " ")
		if err := s.add(label == "1", label == "0", text); err != nil {
			return Split{}, fmt.Errorf("%w: %q; want 0 or 1, a space and the text", err, line)
		}
	}
	return s, nil
}

// readReviews reads JSONL of {"label": 0 or 1, "text"}.
func readReviews(r io.Reader) (Split, error) {
	var s Split
	for line, err := range lines(r) {
		if err != nil {
			return Split{}, err
		}
		var review struct {
			Label *int   `json:"label"`
			Text  string `json:"text"`
		}
		if err := json.Unmarshal([]byte(line), &review); err != nil {
			return Split{}, err
		}
		if review.Label == nil {
			return Split{}, errors.New("a review has no label")
		}
		if err := s.add(*review.Label == 1, *review.Label == 0, review.Text); err != nil {
			return Split{}, fmt.Errorf("%w: label %d, %.40q", err, *review.Label, review.Text)
		}
	}
	return s, nil
}

func (s *Split) add(normal, anomalous bool, text string) error {
	switch {
	case text == "" || !normal && !anomalous:
		return errors.New("a text or its label is missing")
	case normal:
		s.Normal = append(s.Normal, text)
	default:
		s.Anomalous = append(s.Anomalous, text)
	}
	return nil
}

// readBlitzer reads the <review_text> elements of a .review file. It looks like
// XML, but is not: elements are on separate lines, and text is only partly
// escaped. Letters that were lost in collection are U+001A in it and
// become U+FFFD.
func readBlitzer(r io.Reader) ([]string, error) {
	const open, shut = "<review_text>", "</review_text>"
	var out, text []string
	inside := false
	for line, err := range lines(r) {
		switch {
		case err != nil:
			return nil, err
		case line == open:
			inside, text = true, nil
		case line == shut && inside:
			inside = false
			if whole := strings.Join(text, "\n"); whole != "" {
				out = append(out, strings.ReplaceAll(html.UnescapeString(whole), "\x1a", "\uFFFD"))
			}
		case inside:
			text = append(text, line)
		}
	}
	if inside {
		return nil, fmt.Errorf("the file ends before %s", shut)
	}
	return out, nil
}
