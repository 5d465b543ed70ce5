package feedback

import (
	"strings"
	"unicode"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

// maxPromptGroup is the number of responses to one prompt that are kept on one
// side of the split. Further ones are grouped by their own text: otherwise a
// prompt that all responses share would put all of them on one side.
const maxPromptGroup = 20

// group returns the group of a response: that of its prompt, or of its text
// where there is no prompt. A model that was trained on one response of a group
// has an advantage on the others, which the gate must not measure.
func group(b bag.Bag) Hash {
	if prompt := promptGroup(b); prompt != (Hash{}) {
		return prompt
	}
	return textGroup(b)
}

// promptGroup is zero for a response without a prompt. The prompt of a dialogue
// is what precedes the first message of the assistant.
func promptGroup(b bag.Bag) Hash {
	parts := []string{b.Prompt}
	for _, m := range b.Messages {
		if m.Role == rewardmodel.RoleAssistant {
			break
		}
		parts = append(parts, m.Content)
	}
	prompt := normalized(strings.Join(parts, " "))
	if prompt == "" {
		return Hash{}
	}
	g := HashOf("prompt\x00" + prompt)
	g[0] |= promptBit
	return g
}

func textGroup(b bag.Bag) Hash {
	text := normalized(scoredText(b))
	if text == "" { // only signs
		text = scoredText(b)
	}
	g := HashOf("text\x00" + text)
	g[0] &^= promptBit
	return g
}

// promptBit of the first byte tells the groups of prompts from those of texts.
const promptBit = 0x80

func isPromptGroup(group Hash) bool { return group[0]&promptBit != 0 }

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

// Place returns the mark of a record that is about to be stored, with the group
// that is to be recorded. A response that is known keeps the group that it has,
// and none if it has none: a correction with another prompt moves nothing. One
// that was erased is not counted in its group, as it is never stored.
func (x *Index) Place(r Record) Mark {
	m := r.Mark(0)
	prompt := promptGroup(r.Bag)
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, gone := x.erased[m.ID]; gone {
		return m
	}
	if first, known := x.first[m.ID]; known {
		m.Group = newest(first, x.others[m.ID]).group
		return m
	}
	if placed, ok := x.placed[m.ID]; ok {
		m.Group = placed
		return m
	}
	if len(x.placed) >= maxPlaced {
		for id := range x.placed {
			x.unplace(id)
		}
	}
	if prompt != (Hash{}) && x.prompts[prompt] >= maxPromptGroup {
		m.Group = textGroup(r.Bag)
	}
	x.placed[m.ID] = m.Group
	x.countGroup(m.Group, 1)
	return m
}

// unplace takes back that a response was placed, if it was.
func (x *Index) unplace(id Hash) {
	if placed, ok := x.placed[id]; ok {
		delete(x.placed, id)
		x.countGroup(placed, -1)
	}
}
