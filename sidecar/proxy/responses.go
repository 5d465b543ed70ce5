package proxy

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// responseEvent is an event of a stream of /v1/responses, with the fields that the proxy
// forwards in the modes that enforce.
type responseEvent struct {
	Type         string          `json:"type"`
	Sequence     *int            `json:"sequence_number,omitzero"`
	Response     *responseObject `json:"response,omitzero"`
	ItemID       plain           `json:"item_id,omitzero"`
	OutputIndex  *int            `json:"output_index,omitzero"`
	ContentIndex *int            `json:"content_index,omitzero"`
	SummaryIndex *int            `json:"summary_index,omitzero"`
	Item         *outputItem     `json:"item,omitzero"`
	Part         *contentPart    `json:"part,omitzero"`
	Delta        plain           `json:"delta,omitzero"`
	Text         *plain          `json:"text,omitzero"`
	Refusal      *plain          `json:"refusal,omitzero"`
	Logprobs     *[]struct{}     `json:"logprobs,omitzero"` // always empty
	Name         plain           `json:"name,omitzero"`
	Arguments    plain           `json:"arguments,omitzero"`
	Input        plain           `json:"input,omitzero"`
	Code         plain           `json:"code,omitzero"`
	Message      plain           `json:"message,omitzero"`
	Param        plain           `json:"param,omitzero"`
	Error        raw             `json:"error,omitzero"`
}

// responseObject is the body of /v1/responses.
type responseObject struct {
	ID                 plain        `json:"id,omitzero"`
	Object             plain        `json:"object,omitzero"`
	CreatedAt          *float64     `json:"created_at,omitzero"`
	CompletedAt        *float64     `json:"completed_at,omitzero"`
	Status             plain        `json:"status,omitzero"`
	Background         *bool        `json:"background,omitzero"`
	Error              raw          `json:"error"`
	IncompleteDetails  *incomplete  `json:"incomplete_details"`
	Model              plain        `json:"model,omitzero"`
	Output             []outputItem `json:"output"`
	ParallelToolCalls  *bool        `json:"parallel_tool_calls,omitzero"`
	PreviousResponseID plain        `json:"previous_response_id,omitzero"`
	ServiceTier        plain        `json:"service_tier,omitzero"`
	Temperature        *float64     `json:"temperature,omitzero"`
	TopP               *float64     `json:"top_p,omitzero"`
	MaxOutputTokens    *int         `json:"max_output_tokens,omitzero"`
	Truncation         plain        `json:"truncation,omitzero"`
	// These repeat the request.
	ToolChoice raw      `json:"tool_choice,omitzero"`
	Tools      raw      `json:"tools,omitzero"`
	Format     settings `json:"text,omitzero"`
	Metadata   raw      `json:"metadata,omitzero"`
	Usage      numbers  `json:"usage,omitzero"`
	Assay      *Report  `json:"assay,omitzero"`
}

type incomplete struct {
	Reason plain `json:"reason"`
}

type outputItem struct {
	Type      string         `json:"type"`
	ID        plain          `json:"id,omitzero"`
	Status    plain          `json:"status,omitzero"`
	Role      plain          `json:"role,omitzero"`
	Content   *[]contentPart `json:"content,omitzero"`
	Summary   *[]contentPart `json:"summary,omitzero"` // of reasoning
	CallID    plain          `json:"call_id,omitzero"` // of tool calls, as the next ones
	Name      plain          `json:"name,omitzero"`
	Arguments plain          `json:"arguments,omitzero"`
	Input     plain          `json:"input,omitzero"`
}

type contentPart struct {
	Type        string      `json:"type"`
	Text        *plain      `json:"text,omitzero"`
	Refusal     *plain      `json:"refusal,omitzero"`
	Annotations *[]struct{} `json:"annotations,omitzero"` // always empty
	Logprobs    *[]struct{} `json:"logprobs,omitzero"`    // always empty
}

// The kinds of texts of an item.
const (
	outputText    = "output_text"
	refusalText   = "refusal"
	reasoningText = "reasoning_text"
	summaryText   = "summary_text"
)

func isReasoning(kind string) bool { return kind == reasoningText || kind == summaryText }

// partKey identifies a text of a response.
type partKey struct {
	item int
	kind string
	part int
}

func (k partKey) field() string { return fmt.Sprintf("%s[%d]", k.kind, k.part) }

// responseTexts guards the texts of a response object, which events repeat.
type responseTexts struct {
	answer *answer
	texts  map[partKey]*text
}

// released returns what of a text may be forwarded. whole is how the upstream repeats
// it: if it is not what was scored, it is scored now.
func (r *responseTexts) released(key partKey, whole string) string {
	if isReasoning(key.kind) && !r.answer.config.ScoreReasoning {
		return whole
	}
	if t := r.texts[key]; t != nil {
		out := t.close()
		if t.repeats(whole) {
			return out
		}
	}
	if whole == "" {
		return ""
	}
	t := r.answer.wholeText(key.item, key.field(), whole)
	r.texts[key] = t
	return t.close()
}

// repeats reports whether whole is the text that was fed.
func (t *text) repeats(whole string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fed.String() == whole
}

// item rebuilds an output item.
func (r *responseTexts) item(index int, it *outputItem) {
	switch it.Type {
	case "message", "reasoning":
		it.Name, it.Arguments, it.Input, it.CallID = plain{}, plain{}, plain{}, plain{}
		for _, parts := range []*[]contentPart{it.Content, it.Summary} {
			if parts != nil {
				for i := range *parts {
					r.part(index, i, &(*parts)[i])
				}
			}
		}
	case "function_call", "custom_tool_call":
		it.Content, it.Summary = nil, nil
	default: // an unknown item may hold text anywhere
		*it = outputItem{Type: it.Type, ID: it.ID, Status: it.Status}
	}
}

// part rebuilds a part of an item.
func (r *responseTexts) part(item, index int, p *contentPart) {
	empty := []struct{}{}
	rebuilt := contentPart{Type: p.Type}
	switch {
	case p.Type == refusalText && p.Refusal != nil:
		out := textOf(r.released(partKey{item, refusalText, index}, p.Refusal.text))
		rebuilt.Refusal = &out
	case (p.Type == outputText || isReasoning(p.Type)) && p.Text != nil:
		out := textOf(r.released(partKey{item, p.Type, index}, p.Text.text))
		rebuilt.Text = &out
	}
	if p.Type == outputText {
		rebuilt.Annotations, rebuilt.Logprobs = &empty, &empty
	}
	*p = rebuilt
}

// withheld reports whether a text was cut.
func (r *responseTexts) withheld() bool {
	for _, t := range r.texts {
		if t.isWithheld() {
			return true
		}
	}
	return false
}

// object rebuilds a response.
func (r *responseTexts) object(o *responseObject) {
	for i := range o.Output {
		r.item(i, &o.Output[i])
	}
	if r.withheld() {
		o.cut()
	}
}

// cut marks a response as incomplete, as OpenAI does for its own filter.
func (o *responseObject) cut() {
	o.Status, o.IncompleteDetails = textOf("incomplete"), &incomplete{textOf(contentFilter)}
}

// responseStream guards the events of /v1/responses in the modes that enforce.
type responseStream struct {
	responseTexts
	out io.Writer

	mu       sync.Mutex
	sequence int
	base     responseObject      // of response.created
	items    map[int]*outputItem // that were forwarded
	ended    bool
	err      error // of out
}

func newResponseStream(a *answer, out io.Writer) *responseStream {
	a.onStop = func(*text) { a.cancel(errStopped) }
	return &responseStream{responseTexts: responseTexts{a, map[partKey]*text{}}, out: out, items: map[int]*outputItem{}}
}

// event handles an event of the upstream. It returns io.EOF after the last one.
func (s *responseStream) event(e serverEvent) error {
	if e.data == nil {
		if e.comment {
			return s.write(func() error { _, err := io.WriteString(s.out, ":\n\n"); return err })
		}
		return nil
	}
	if e.isDone() {
		return io.EOF
	}
	var v responseEvent
	if err := decode(e.data, &v); err != nil {
		return err
	}
	v.Logprobs = nil
	if err := s.dispatch(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *responseStream) dispatch(v responseEvent) error {
	kind := strings.TrimPrefix(v.Type, "response.")
	switch kind {
	case "created", "queued", "in_progress":
		if v.Response != nil {
			s.object(v.Response)
			s.base = *v.Response
		}
		return s.send(responseEvent{Type: v.Type, Response: v.Response})
	case "completed", "incomplete", "failed":
		return s.last(v)
	case "output_item.added", "output_item.done":
		return s.outputItem(v)
	case "content_part.added", "content_part.done", "reasoning_part.added", "reasoning_part.done",
		"reasoning_summary_part.added", "reasoning_summary_part.done":
		return s.contentPart(v)
	case "function_call_arguments.delta", "function_call_arguments.done", "custom_tool_call_input.delta", "custom_tool_call_input.done":
		return s.send(responseEvent{
			Type: v.Type, ItemID: v.ItemID, OutputIndex: v.OutputIndex,
			Delta: v.Delta, Name: v.Name, Arguments: v.Arguments, Input: v.Input,
		})
	case "error":
		return s.send(responseEvent{Type: v.Type, Code: v.Code, Message: v.Message, Param: v.Param, Error: v.Error})
	}
	return s.textEvent(kind, v)
}

// textKinds are the texts of the events with a delta or a whole text.
var textKinds = map[string]string{
	"output_text": outputText, "refusal": refusalText,
	"reasoning_text": reasoningText, "reasoning": reasoningText, "reasoning_summary_text": summaryText,
}

// textEvent handles the events of texts, and drops those that it does not know: they may
// hold text anywhere.
func (s *responseStream) textEvent(name string, v responseEvent) error {
	name, step, _ := strings.Cut(name, ".")
	kind, known := textKinds[name]
	if !known {
		return nil
	}
	key := partKey{item: number(v.OutputIndex), kind: kind, part: number(v.ContentIndex) + number(v.SummaryIndex)}
	to := responseEvent{Type: v.Type, ItemID: v.ItemID, OutputIndex: v.OutputIndex, ContentIndex: v.ContentIndex, SummaryIndex: v.SummaryIndex}
	if kind == outputText {
		to.Logprobs = &[]struct{}{}
	}
	switch {
	case step == "delta" && !s.answer.guarded(isReasoning(kind)):
		to.Delta = v.Delta
		return s.send(to)
	case step == "delta":
		t := s.texts[key]
		if t == nil {
			t = s.answer.repeatedText(key.item, key.field(), func(released string) {
				piece := to
				piece.Delta = textOf(released)
				_ = s.send(piece) // the reader sees the error
			})
			s.texts[key] = t
		}
		t.add(v.Delta.text)
		return nil
	case step == "done" && kind == refusalText && v.Refusal != nil:
		out := textOf(s.released(key, v.Refusal.text))
		to.Refusal = &out
		return s.send(to)
	case step == "done" && v.Text != nil:
		out := textOf(s.released(key, v.Text.text))
		to.Text = &out
		return s.send(to)
	}
	return nil
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// itemBytes are those of an item without its texts, about.
const itemBytes = 256

func (s *responseStream) outputItem(v responseEvent) error {
	if v.Item == nil {
		return nil
	}
	index := number(v.OutputIndex)
	s.item(index, v.Item)
	if !s.answer.keep(itemBytes + len(v.Item.Arguments.text) + len(v.Item.Input.text)) {
		return s.answer.aborted()
	}
	s.mu.Lock()
	kept := *v.Item
	s.items[index] = &kept
	s.mu.Unlock()
	return s.send(responseEvent{Type: v.Type, OutputIndex: v.OutputIndex, Item: v.Item})
}

func (s *responseStream) contentPart(v responseEvent) error {
	if v.Part == nil {
		return nil
	}
	if strings.HasSuffix(v.Type, ".added") { // the text follows
		for _, p := range []*plain{v.Part.Text, v.Part.Refusal} {
			if p != nil {
				p.text = ""
			}
		}
		empty := []struct{}{}
		part := contentPart{Type: v.Part.Type, Text: v.Part.Text, Refusal: v.Part.Refusal}
		if part.Type == outputText {
			part.Annotations, part.Logprobs = &empty, &empty
		}
		v.Part = &part
	} else {
		s.part(number(v.OutputIndex), number(v.ContentIndex)+number(v.SummaryIndex), v.Part)
	}
	return s.send(responseEvent{
		Type: v.Type, ItemID: v.ItemID, OutputIndex: v.OutputIndex,
		ContentIndex: v.ContentIndex, SummaryIndex: v.SummaryIndex, Part: v.Part,
	})
}

// last sends the event that ends the response, with the report.
func (s *responseStream) last(v responseEvent) error {
	if v.Response == nil {
		return fmt.Errorf("%w: %s has no response", errMalformed, v.Type)
	}
	for _, t := range s.texts {
		t.close()
	}
	s.object(v.Response)
	if err := s.answer.aborted(); err != nil {
		return err
	}
	if s.withheld() && v.Type == "response.completed" {
		v.Type = "response.incomplete"
	}
	report := s.answer.report()
	v.Response.Assay = &report
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return s.send(responseEvent{Type: v.Type, Response: v.Response})
}

// end sends what follows the last event of the upstream: if mode stop has canceled it,
// what it would have sent.
func (s *responseStream) end(complete bool) error {
	for _, t := range s.texts {
		t.close()
	}
	if err := s.answer.aborted(); err != nil {
		return err
	}
	if s.answer.allStopped() && !s.ended {
		s.cutOff()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// cutOff ends the open items and the response.
func (s *responseStream) cutOff() {
	for _, index := range slices.Sorted(maps.Keys(s.items)) {
		it := s.items[index]
		if it.Status.text == "completed" || it.Type != "message" {
			continue
		}
		var parts []contentPart
		for _, key := range s.keys(index) {
			part := contentPart{Type: key.kind}
			out, at := textOf(s.texts[key].close()), key.part
			done := responseEvent{Type: "response." + key.kind + ".done", ItemID: it.ID, OutputIndex: &index, ContentIndex: &at}
			empty := []struct{}{}
			if key.kind == refusalText {
				part.Refusal, done.Refusal = &out, &out
			} else {
				part.Text, done.Text = &out, &out
				part.Annotations, part.Logprobs, done.Logprobs = &empty, &empty, &empty
			}
			_ = s.send(done)
			_ = s.send(responseEvent{Type: "response.content_part.done", ItemID: it.ID, OutputIndex: &index, ContentIndex: &at, Part: &part})
			parts = append(parts, part)
		}
		it.Status, it.Content = textOf("incomplete"), &parts
		_ = s.send(responseEvent{Type: "response.output_item.done", OutputIndex: &index, Item: it})
	}
	report, o := s.answer.report(), s.base
	o.Output, o.Assay = []outputItem{}, &report
	for _, index := range slices.Sorted(maps.Keys(s.items)) {
		o.Output = append(o.Output, *s.items[index])
	}
	o.cut()
	_ = s.send(responseEvent{Type: "response.incomplete", Response: &o})
}

// keys are the texts of a message, in order.
func (s *responseStream) keys(item int) (keys []partKey) {
	for key := range s.texts {
		if key.item == item && !isReasoning(key.kind) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b partKey) int { return a.part - b.part })
	return keys
}

// send numbers an event and sends it. Its error is that of the client's connection.
func (s *responseStream) send(v responseEvent) error {
	return s.write(func() error {
		sequence := s.sequence
		s.sequence++
		v.Sequence = &sequence
		return writeEvent(s.out, v.Type, encode(v))
	})
}

func (s *responseStream) write(put func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = put()
	}
	return s.err
}
