package proxy

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// observedStream forwards events as they are, and scores their texts alongside. Only the
// event that ends the stream waits for the verdict.
type observedStream struct {
	answer   *answer
	out      io.Writer
	endpoint endpoint
	texts    map[string]*text
	last     completion // the last chunk
	report   *Report
}

func newObservedStream(a *answer, e endpoint, out io.Writer) *observedStream {
	return &observedStream{answer: a, out: out, endpoint: e, texts: map[string]*text{}}
}

// event forwards an event. It returns io.EOF after the last one.
func (s *observedStream) event(e serverEvent) error {
	if e.isDone() {
		if err := s.conclude(); err != nil {
			return err
		}
		if _, err := s.out.Write(e.raw); err != nil {
			return err
		}
		return io.EOF
	}
	if s.endpoint == responseEndpoint {
		return s.responseEvent(e)
	}
	if _, err := s.out.Write(e.raw); err != nil {
		return err
	}
	if e.data == nil {
		return nil
	}
	var c completion
	if err := decode(e.data, &c); err != nil {
		s.answer.failed(err)
		return nil
	}
	s.last = c
	for i := range c.Choices {
		for _, slot := range c.Choices[i].slots() {
			s.add(c.Choices[i].Index, slot.field, slot.reasoning, slot.text.text)
		}
	}
	return nil
}

func (s *observedStream) add(choice int, field string, reasoning bool, piece string) {
	if piece == "" || !s.answer.guarded(reasoning) {
		return
	}
	key := fmt.Sprint(choice, field)
	t := s.texts[key]
	if t == nil && len(s.texts) >= maxTexts {
		s.answer.failed(errTexts)
		return
	}
	if t == nil {
		t = s.answer.newText(choice, field, nil)
		s.texts[key] = t
	}
	t.add(piece)
}

func (s *observedStream) responseEvent(e serverEvent) error {
	var v responseEvent
	var err error
	if e.data != nil {
		err = decode(e.data, &v)
	}
	switch v.Type {
	case "response.completed", "response.incomplete", "response.failed":
		s.wait()
		if _, err := s.out.Write(withReport(e, *s.report)); err != nil {
			return err
		}
		return nil
	}
	if _, err := s.out.Write(e.raw); err != nil {
		return err
	}
	if err != nil {
		s.answer.failed(err)
		return nil
	}
	name, step, _ := strings.Cut(strings.TrimPrefix(v.Type, "response."), ".")
	if kind, known := textKinds[name]; known && step == "delta" {
		key := partKey{item: number(v.OutputIndex), kind: kind, part: number(v.ContentIndex) + number(v.SummaryIndex)}
		s.add(key.item, key.field(), isReasoning(kind), v.Delta.text)
	}
	return nil
}

// withReport is an event with the report in its response; all else stays as it is.
func withReport(e serverEvent, r Report) []byte {
	var event, response map[string]jsontext.Value
	options := jsontext.AllowInvalidUTF8(true)
	if json.Unmarshal(e.data, &event, options) != nil || json.Unmarshal(event["response"], &response, options) != nil || response == nil {
		return e.raw // null has no members to add to
	}
	response["assay"] = encode(r)
	event["response"] = encode(response)
	var b strings.Builder
	_ = writeEvent(&b, e.kind, encode(event)) // a builder does not fail
	return []byte(b.String())
}

// wait waits for the verdict, at most Config.VerdictTimeout.
func (s *observedStream) wait() {
	if s.report == nil {
		r := s.answer.awaitReport()
		s.report = &r
	}
}

// conclude sends the verdict in a chunk.
func (s *observedStream) conclude() error {
	s.wait()
	if s.endpoint == responseEndpoint {
		return nil
	}
	envelope := s.last
	return writeEvent(s.out, "", encode(verdictChunk(envelope, s.last, *s.report)))
}

// end sends the verdict if the upstream ended the stream without an event for that.
func (s *observedStream) end(complete bool) error {
	if complete || s.report != nil {
		return nil
	}
	return s.conclude()
}

// awaitReport waits for the verdicts, at most Config.VerdictTimeout.
func (a *answer) awaitReport() Report {
	start := time.Now()
	ctx, cancel := context.WithTimeout(a.ctx, a.config.VerdictTimeout)
	defer cancel()
	a.await(ctx)
	a.metrics.endWaited(start)
	return a.report()
}
