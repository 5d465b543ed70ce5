package rewardmodel

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// contextBytes is how much of the end of a prompt is tokenized for each token that
// the model reads: far more than a token has on average, so that a long prompt does
// not cost more than what is read of it.
const contextBytes = 32

// promptContext is what the model reads of a prompt.
type promptContext struct {
	ids    []int32 // with special tokens
	key    key
	queued bool // a sequence of the job has it
}

// setContext sets the context of the instances that are added next: those of item, or
// of the given one of its messages.
func (p *preparation) setContext(ctx context.Context, item Item, message *int) error {
	p.context = nil
	if p.config.ContextTokens == 0 {
		return nil
	}
	text := item.context(message, contextBytes*p.config.ContextTokens)
	if text == "" {
		return nil
	}
	k := p.cache.key(text)
	if known, ok := p.contexts[k]; ok {
		p.context = known
		return nil
	}
	ids, err := contextTokens(ctx, p.tokenizer, text, p.config.ContextTokens)
	if err != nil {
		return err
	}
	p.context = &promptContext{ids: ids, key: k}
	p.contexts[k] = p.context
	return nil
}

// ContextTokens returns what a model reads of the prompt of item, or of the turns
// before the given one of its messages: at most limit tokens, special tokens
// included, of the end. It returns nil when there is none, and the error of ctx.
func ContextTokens(ctx context.Context, tok Tokenizer, item Item, message *int, limit int) ([]int32, error) {
	text := item.context(message, contextBytes*limit)
	if text == "" {
		return nil, nil
	}
	return contextTokens(ctx, tok, text, limit)
}

func contextTokens(ctx context.Context, tok Tokenizer, text string, limit int) ([]int32, error) {
	ids, err := tok.IDsContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return tok.Frame(ids[max(0, len(ids)-(limit-tok.Special())):]), nil
}

// context is the text that the response, or the content of a message, answers: the
// prompt and the messages before it, each on a line of its own. Of a longer text it
// returns at most the last limit bytes, from the start of a word. It reads no more
// than that of the turns before the last one, so that a conversation of many turns
// takes linear time.
func (it Item) context(message *int, limit int) string {
	var turns []string // the last one first
	size := 0
	add := func(turn string) {
		if len(turns) == 0 {
			turn = strings.TrimRightFunc(turn, unicode.IsSpace)
		}
		size += len(turn) + 1
		if len(turns) > 0 || turn != "" {
			turns = append(turns, turn[max(0, len(turn)-limit-1):]) // one more byte shows that there is more
		}
	}
	if message != nil {
		for i := *message - 1; i >= 0 && size <= limit; i-- {
			add(it.Messages[i].Content)
		}
	}
	if it.Prompt != "" && size <= limit {
		add(it.Prompt)
	}
	slices.Reverse(turns)
	text := strings.TrimSpace(strings.Join(turns, "\n"))
	if len(text) <= limit {
		return text
	}
	cut := len(text) - limit
	for end := cut + utf8.UTFMax - 1; cut < end && !utf8.RuneStart(text[cut]); {
		cut++
	}
	text = text[cut:]
	if space := strings.IndexAny(text, " \n"); space >= 0 && space < limit/2 {
		text = text[space+1:]
	}
	return strings.TrimSpace(text)
}

// key identifies text in the current context.
func (p *preparation) key(text string) key {
	if p.context == nil {
		return p.cache.key(text)
	}
	return p.cache.keyIn(p.context.key, text)
}

// addSequence queues a sequence in the current context, whose tokens the first
// sequence with it adds to the queue.
func (p *preparation) addSequence(ids []int32, k key, whole bool, unique int) {
	s, tokens := Sequence{IDs: ids}, len(ids)
	if c := p.context; c != nil {
		s.Context = c.ids
		if !c.queued {
			tokens += len(c.ids)
			c.queued = true
		}
	}
	p.job.Add(s, tokens, k, whole, unique)
}
