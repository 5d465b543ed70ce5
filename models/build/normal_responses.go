package main

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

//go:embed text/*.txt
var texts embed.FS

// composer writes normal responses from hand-written sentence frames.
type composer struct {
	rng       *rand.Rand
	assistant []topic
	comments  []topic
	frame     map[string][]string // openings, closings, headings
	slots     map[string][]string // values of {name}
}

// topic is a set of frames that may follow each other in any order.
type topic struct {
	name   string
	frames []string
}

func newComposer(rng *rand.Rand) (*composer, error) {
	c := &composer{rng: rng, frame: map[string][]string{}, slots: map[string][]string{}}
	var frame []topic
	for name, into := range map[string]*[]topic{
		"text/assistant.txt": &c.assistant, "text/comments.txt": &c.comments, "text/frame.txt": &frame,
	} {
		data, err := texts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if *into, err = parseTopics(string(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, t := range frame {
		c.frame[t.name] = t.frames
	}
	data, err := texts.ReadFile("text/slots.txt")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		name, values, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			return nil, fmt.Errorf("text/slots.txt: %q is not of the form name = value|value", line)
		}
		c.slots[name] = strings.Split(values, "|")
	}
	return c, nil
}

// parseTopics reads "== topic" lines, each followed by one frame per line, in
// which \n stands for a line break.
func parseTopics(text string) ([]topic, error) {
	var out []topic
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "== "); ok {
			out = append(out, topic{name: name})
			continue
		}
		if line == "" || len(out) == 0 {
			return nil, fmt.Errorf("%q is outside a topic or is empty", line)
		}
		last := &out[len(out)-1]
		last.frames = append(last.frames, strings.ReplaceAll(line, `\n`, "\n"))
	}
	return out, nil
}

// answer returns n parts of an assistant's answer on one topic, or on more
// when n is large.
func (c *composer) answer(n int) []string {
	var parts []string
	if n > 1 && c.chance(0.5) {
		parts = append(parts, c.pick(c.frame["open"]))
	}
	closing := n > 2 && c.chance(0.4)
	body := n - len(parts)
	if closing {
		body--
	}
	parts = append(parts, c.body(c.assistant, body)...)
	if closing {
		parts = append(parts, c.pick(c.frame["close"]))
	}
	return c.fill(parts)
}

// comment returns n parts of a reader's comment.
func (c *composer) comment(n int) []string {
	return c.fill(c.body(c.comments, n))
}

// body returns n different frames from few topics; sometimes it changes the topic
// early.
func (c *composer) body(topics []topic, n int) []string {
	var out []string
	for _, at := range c.rng.Perm(len(topics)) {
		frames := slices.Clone(topics[at].frames)
		c.rng.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
		take := min(n-len(out), len(frames), 2+c.rng.IntN(8))
		out = append(out, frames[:take]...)
		if len(out) >= n {
			break
		}
	}
	return out
}

var slot = regexp.MustCompile(`\{[a-z]+\}`)

// fill puts values into the slots; a slot keeps its value within one response.
func (c *composer) fill(parts []string) []string {
	chosen := map[string]string{}
	for i, part := range parts {
		parts[i] = slot.ReplaceAllStringFunc(part, func(name string) string {
			values, known := c.slots[name[1:len(name)-1]]
			if !known {
				return name // braces of a code block
			}
			if chosen[name] == "" || c.chance(0.2) {
				chosen[name] = c.pick(values)
			}
			return chosen[name]
		})
	}
	return parts
}

// layout joins parts into one response: mostly running text, some paragraphs,
// some Markdown lists, some text without uppercase letters.
func (c *composer) layout(parts []string) string {
	style := c.rng.Float64()
	var out strings.Builder
	listed := 0
	for i, part := range parts {
		block := strings.Contains(part, "\n")
		if i > 0 {
			out.WriteString(c.gap(parts[i-1], style, block))
		}
		if style < 0.15 && i > 0 && !block {
			listed++
			if style < 0.07 {
				fmt.Fprintf(&out, "%d. ", listed)
			} else {
				out.WriteString("- ")
			}
		}
		out.WriteString(part)
	}
	text := out.String()
	if style < 0.05 {
		text = c.fill([]string{c.pick(c.frame["heading"])})[0] + "\n\n" + text
	}
	if style > 0.92 {
		text = strings.ToLower(text)
	}
	return text
}

// gap returns the separator between a part and the one before it.
func (c *composer) gap(before string, style float64, block bool) string {
	switch {
	case block || strings.Contains(before, "\n"):
		return "\n\n"
	case style < 0.15:
		return "\n"
	case style < 0.3 && c.chance(0.4):
		return "\n\n"
	case strings.ContainsAny(before[len(before)-1:], `.!?:"'`):
		return " "
	}
	return "\n" // an unfinished sentence must not swallow the next one
}

func (c *composer) pick(from []string) string { return from[c.rng.IntN(len(from))] }

func (c *composer) chance(p float64) bool { return c.rng.Float64() < p }
