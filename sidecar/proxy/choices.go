package proxy

import (
	"fmt"
	"io"
	"sync"
)

// completion is a message of chat completions or completions, whole or a chunk, with the
// fields that the proxy forwards in the modes that enforce. Token ids and logprobs repeat
// the text and name alternatives to it: they are dropped.
type completion struct {
	ID                plain    `json:"id,omitzero"`
	Object            plain    `json:"object,omitzero"`
	Created           *float64 `json:"created,omitzero"`
	Model             plain    `json:"model,omitzero"`
	ServiceTier       plain    `json:"service_tier,omitzero"`
	SystemFingerprint plain    `json:"system_fingerprint,omitzero"`
	Choices           []choice `json:"choices"`
	Usage             numbers  `json:"usage,omitzero"`
	Error             raw      `json:"error,omitzero"`
	Assay             *Report  `json:"assay,omitzero"`
}

type choice struct {
	Index        int       `json:"index"`
	Text         *plain    `json:"text,omitzero"`    // of completions
	Delta        *message  `json:"delta,omitzero"`   // of a chunk of chat completions
	Message      *message  `json:"message,omitzero"` // of chat completions
	Logprobs     *struct{} `json:"logprobs"`         // always null
	FinishReason plain     `json:"finish_reason"`
}

// message is the message of a chat, or what a chunk adds to it.
type message struct {
	Role             plain `json:"role,omitzero"`
	Content          plain `json:"content,omitzero"`
	Refusal          plain `json:"refusal,omitzero"`
	ReasoningContent plain `json:"reasoning_content,omitzero"`
	Reasoning        plain `json:"reasoning,omitzero"`
	ToolCalls        raw   `json:"tool_calls,omitzero"`
	FunctionCall     raw   `json:"function_call,omitzero"`
}

// slot is a text of a choice.
type slot struct {
	field     string
	reasoning bool
	text      *plain
}

// slots are the texts of a choice.
func (c *choice) slots() (slots []slot) {
	if c.Text != nil {
		slots = append(slots, slot{"text", false, c.Text})
	}
	for _, m := range []*message{c.Delta, c.Message} {
		if m != nil {
			slots = append(slots, slot{"content", false, &m.Content}, slot{"refusal", false, &m.Refusal},
				slot{"reasoning_content", true, &m.ReasoningContent}, slot{"reasoning", true, &m.Reasoning})
		}
	}
	return slots
}

// isEmpty reports whether the choice has nothing to forward.
func (c *choice) isEmpty() bool {
	empty := c.Text == nil && !c.FinishReason.set
	for _, m := range []*message{c.Delta, c.Message} {
		empty = empty && (m == nil || m.Role.IsZero() && m.ToolCalls.IsZero() && m.FunctionCall.IsZero())
	}
	for _, s := range c.slots() {
		empty = empty && !s.text.set
	}
	return empty
}

const contentFilter = "content_filter" // the finish reason of a text that was cut

// choiceStream guards the chunks of chat completions and completions in the modes that
// enforce.
type choiceStream struct {
	answer *answer
	out    io.Writer

	mu       sync.Mutex
	envelope completion // of the upstream's last chunk, without choices and usage
	last     completion // that was sent
	chat     bool       // the chunks have a delta
	choices  map[int]*choiceState
	err      error // of out
}

// choiceState is what was forwarded of a choice.
type choiceState struct {
	texts    map[string]*text
	finished bool
}

func newChoiceStream(a *answer, out io.Writer) *choiceStream {
	s := &choiceStream{answer: a, out: out, choices: map[int]*choiceState{}}
	a.onStop = s.stop
	return s
}

// event handles an event of the upstream. It returns io.EOF after the last one.
func (s *choiceStream) event(e serverEvent) error {
	if e.data == nil {
		return s.keepAlive(e)
	}
	if e.isDone() {
		return io.EOF
	}
	var c completion
	if err := decode(e.data, &c); err != nil {
		return err
	}
	if !c.Error.IsZero() {
		s.flush()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = writeEvent(s.out, "", encode(struct {
				Error raw `json:"error"`
			}{c.Error}))
		}
		return s.err
	}
	s.adopt(c)
	for i := range c.Choices {
		if s.state(c.Choices[i].Index) == nil {
			return fmt.Errorf("%w: the response has more than %d choices", errMalformed, maxTexts)
		}
		s.choice(&c.Choices[i], c.Usage)
	}
	if len(c.Choices) == 0 && !c.Usage.IsZero() {
		s.mu.Lock()
		s.write(nil, c.Usage)
		s.mu.Unlock()
	}
	return s.failed()
}

func (s *choiceStream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// keepAlive forwards that a comment arrived, without its text.
func (s *choiceStream) keepAlive(e serverEvent) error {
	if !e.comment {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.out, ":\n\n")
	return err
}

func (s *choiceStream) adopt(c completion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range c.Choices {
		s.chat = s.chat || one.Delta != nil
	}
	c.Choices, c.Usage, c.Assay = nil, nil, nil
	s.envelope = c
}

// state returns the state of a choice, or nil if there are too many choices.
func (s *choiceStream) state(index int) *choiceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.choices[index]
	if state == nil && len(s.choices) < maxTexts {
		state = &choiceState{texts: map[string]*text{}}
		s.choices[index] = state
	}
	return state
}

// choice forwards what is not scored, and adds what is to the texts of the choice.
func (s *choiceStream) choice(c *choice, usage numbers) {
	state := s.state(c.Index)
	c.Message = nil // is not part of a chunk
	type piece struct {
		text  *text
		added string
	}
	var pieces []piece
	for _, slot := range c.slots() {
		if slot.text.text == "" || !s.answer.guarded(slot.reasoning) {
			continue
		}
		pieces = append(pieces, piece{s.text(state, c.Index, slot.field), slot.text.text})
		*slot.text = plain{}
	}
	if c.Text != nil && !c.Text.set {
		c.Text = nil
	}
	reason := c.FinishReason
	c.FinishReason = plain{}
	if !c.isEmpty() {
		s.forward(*c)
	}
	for _, p := range pieces {
		p.text.add(p.added)
	}
	if reason.set {
		s.finish(c.Index, state, reason, usage)
	}
}

// text returns a text of a choice. Only the goroutine that reads calls it.
func (s *choiceStream) text(state *choiceState, index int, field string) *text {
	t := state.texts[field]
	if t == nil {
		t = s.answer.newText(index, field, func(released string) { s.forward(s.piece(index, field, released)) })
		state.texts[field] = t
	}
	return t
}

// piece is a choice of a chunk with a piece of a text.
func (s *choiceStream) piece(index int, field, text string) choice {
	c := choice{Index: index}
	if field == "text" {
		p := textOf(text)
		c.Text = &p
		return c
	}
	c.Delta = &message{}
	for _, slot := range c.slots() {
		if slot.field == field {
			*slot.text = textOf(text)
		}
	}
	return c
}

// forward sends a choice, unless it has finished.
func (s *choiceStream) forward(c choice) {
	state := s.state(c.Index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !state.finished {
		s.write([]choice{c}, nil)
	}
}

// write sends a chunk; s.mu is locked.
func (s *choiceStream) write(choices []choice, usage numbers) {
	c := s.envelope
	c.Choices, c.Usage = choices, usage
	if choices == nil {
		c.Choices = []choice{}
	}
	s.last = c
	s.put(c)
}

func (s *choiceStream) put(c completion) {
	if s.err == nil {
		s.err = writeEvent(s.out, "", encode(c))
	}
}

// finish ends a choice once its texts are scored.
func (s *choiceStream) finish(index int, state *choiceState, reason plain, usage numbers) {
	for _, t := range state.texts {
		t.finish()
	}
	for _, t := range state.texts {
		t.close()
		if t.isWithheld() {
			reason = textOf(contentFilter)
		}
	}
	if s.answer.aborted() == nil {
		s.conclude(index, state, reason, usage)
	}
}

// conclude sends the finish reason of a choice, once.
func (s *choiceStream) conclude(index int, state *choiceState, reason plain, usage numbers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.finished {
		return
	}
	state.finished = true
	c := s.piece(index, "", "")
	if !s.chat {
		empty := textOf("")
		c = choice{Index: index, Text: &empty}
	}
	c.FinishReason = reason
	s.write([]choice{c}, usage)
}

// stop ends the choice of a violating text, and the answer after the last choice.
func (s *choiceStream) stop(t *text) {
	s.conclude(t.choice, s.state(t.choice), textOf(contentFilter), nil)
	s.mu.Lock()
	finished := 0
	for _, state := range s.choices {
		if state.finished {
			finished++
		}
	}
	s.mu.Unlock()
	if finished >= max(s.answer.request.choices, 1) {
		s.answer.cancel(errStopped)
	}
}

// flush scores the rest of the choices that the upstream did not finish.
func (s *choiceStream) flush() {
	s.mu.Lock()
	open := map[int]*choiceState{}
	for index, state := range s.choices {
		if !state.finished {
			open[index] = state
		}
	}
	s.mu.Unlock()
	for _, state := range open {
		for _, t := range state.texts {
			t.finish()
		}
	}
	for index, state := range open {
		withheld := false
		for _, t := range state.texts {
			t.close()
			withheld = withheld || t.isWithheld()
		}
		if withheld && s.answer.aborted() == nil {
			s.conclude(index, state, textOf(contentFilter), nil)
		}
	}
}

// end sends what follows the last chunk.
func (s *choiceStream) end(complete bool) error {
	s.flush()
	if err := s.answer.aborted(); err != nil {
		return err
	}
	report := s.answer.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(verdictChunk(s.envelope, s.last, report))
	if s.err == nil && complete {
		s.err = writeEvent(s.out, "", []byte(done))
	}
	return s.err
}

// verdictChunk repeats the last chunk without its text, with the report: so clients see
// no shape that the upstream did not send. It omits the finish reason and the usage, which
// clients that merge chunks would count twice.
func verdictChunk(envelope, last completion, report Report) completion {
	c := envelope
	c.Usage, c.Choices, c.Assay, c.Error = nil, []choice{}, &report, nil
	if len(last.Choices) == 0 {
		return c
	}
	from := last.Choices[0]
	to := choice{Index: from.Index}
	if from.Delta != nil {
		to.Delta = &message{}
	}
	if from.Text != nil {
		empty := textOf("")
		to.Text = &empty
	}
	c.Choices = append(c.Choices, to)
	return c
}
