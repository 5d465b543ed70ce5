package feedback

import (
	"strings"
	"unicode"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

// maxPromptGroup is the maximum number of responses that are grouped by their
// prompt. Further ones are grouped by their own text: otherwise a prompt that all
// responses share would put all of them on one side of the split.
const maxPromptGroup = 20

// group returns the group of a response: that of its prompt, or of its text
// where there is no prompt. A model that was trained on one response of a group
// has an advantage on the others, which the gate must not measure.
func group(b bag.Bag) Hash {
	prompt := normalized(prompt(b))
	if prompt == "" {
		return textGroup(b)
	}
	g := HashOf("prompt\x00" + prompt)
	g[0] |= promptBit
	return g
}

// prompt returns the prompt of a response, in a dialogue with the messages before
// the first one of the assistant.
func prompt(b bag.Bag) string {
	parts := []string{b.Prompt}
	for _, m := range b.Messages {
		if m.Role == rewardmodel.RoleAssistant {
			break
		}
		parts = append(parts, m.Content)
	}
	return strings.Join(parts, " ")
}

func textGroup(b bag.Bag) Hash {
	text := normalized(scoredText(b))
	if text == "" { // only punctuation and symbols
		text = scoredText(b)
	}
	g := HashOf("text\x00" + text)
	g[0] &^= promptBit
	return g
}

// promptBit of the first byte distinguishes the groups of prompts from those of
// texts.
const promptBit = 0x80

// normalized reduces a text to its letters and numbers in lowercase, so that
// texts that differ in case, spacing or punctuation are equal.
func normalized(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// Place returns the mark of a new record, with the group to store. A known response
// keeps its group, or the lack of one: a correction with another prompt moves
// nothing. An erased response is not counted in its group, because it is not stored.
// The error, which names the field, is that of labels with more aspects than a store
// may have.
func (x *Index) Place(r Record) (Mark, error) {
	m := r.Mark(0)
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, gone := x.erased[m.ID]; gone {
		return m, nil
	}
	if err := x.names.admit(m.Labels); err != nil {
		return m, err
	}
	if first, known := x.first[m.ID]; known {
		m.Group = newest(first, x.others[m.ID]).group
		return m, nil
	}
	if placed, ok := x.placed[m.ID]; ok {
		m.Group = placed
		return m, nil
	}
	if len(x.placed) >= maxPlaced {
		for id := range x.placed {
			x.unplace(id)
		}
	}
	if x.prompts[m.Group] >= maxPromptGroup {
		m.Group = textGroup(r.Bag)
	}
	x.placed[m.ID] = m.Group
	x.countGroup(m.Group, 1)
	return m, nil
}

// unplace removes a response from placed and from the count of its group.
func (x *Index) unplace(id Hash) {
	if placed, ok := x.placed[id]; ok {
		delete(x.placed, id)
		x.countGroup(placed, -1)
	}
}

// countGroup counts the responses of a prompt; other groups are not limited.
func (x *Index) countGroup(group Hash, n int) {
	if group[0]&promptBit == 0 {
		return
	}
	if x.prompts[group] += n; x.prompts[group] <= 0 {
		delete(x.prompts, group)
	}
}
