package segmenter

import (
	"context"
	"errors"
	"strings"
	"testing"

	"assay/internal/ctxtest"
)

// TestSegmentCanceled cancels the context at several points of texts with many blocks
// and with one huge block: almost nothing is read after it.
func TestSegmentCanceled(t *testing.T) {
	const spaces = 1 << 15
	texts := []string{"It is the end." + strings.Repeat(" ", spaces) + strings.Repeat("mr. ", 1<<17), strings.Repeat("a", 1<<20)}
	for _, c := range hostile {
		texts = append(texts, strings.Repeat(c.unit, 1<<18/len(c.unit)))
	}
	for _, text := range texts {
		for _, asked := range []int{0, 1, 2, 7} {
			at := 0
			ctx := &ctxtest.Countdown{Context: t.Context(), Left: asked}
			s := newScanner(ctx, text)
			ctx.Ended = func() { at = s.bytes }
			s.blocks()
			spans, err := s.result()
			if err == nil {
				continue // the text is too short for so many checks
			}
			if !errors.Is(err, context.Canceled) || spans != nil {
				t.Fatalf("%.20q...: got %v and %d spans", text, err, len(spans))
			}
			if after := s.bytes - at; after > spaces+checkEvery { // a run of white space is read without checks
				t.Errorf("%.20q..., canceled at check %d: %d bytes are read afterward", text, asked, after)
			}
		}
	}
}

// TestSegmentChecksOften counts the checks of the context in a megabyte of one block.
func TestSegmentChecksOften(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a", 1<<20),
		strings.Repeat("\n", 1<<20),
		strings.Repeat("It was late. ", 1<<20/13),
		"It is the end." + strings.Repeat("\u3000", 1<<18) + strings.Repeat("mr. ", 1<<16),
		"```\n" + strings.Repeat("x\n", 1<<19),
		strings.Repeat("    a\n", 1<<20/6),
	} {
		asked := 1 << 30
		ctx := &ctxtest.Countdown{Context: t.Context(), Left: asked}
		if _, err := Segment(ctx, text); err != nil {
			t.Fatal(err)
		}
		if checks := asked - ctx.Left; checks < len(text)/checkEvery/2 {
			t.Errorf("%.20q...: only %d checks in %d bytes", text, checks, len(text))
		}
	}
}

func TestSegmentWithADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if spans, err := Segment(ctx, "Hi."); !errors.Is(err, context.Canceled) || spans != nil {
		t.Errorf("got %v, %v", spans, err)
	}
	if spans, err := Limit(ctx, "Hi.", []Span{{0, 3}}, 9, nil); !errors.Is(err, context.Canceled) || spans != nil {
		t.Errorf("got %v, %v", spans, err)
	}
}

// TestLimitCanceled cancels the context in each of the first calls of length, or makes
// that call fail: length is not called again.
func TestLimitCanceled(t *testing.T) {
	text := strings.Repeat("abcdefghij", 1000)
	broken := errors.New("broken")
	for last := 1; last < 40; last++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		length := func(s string) (int, error) {
			if calls++; calls == last {
				cancel()
			}
			return len(s), nil
		}
		if spans, err := Limit(ctx, text, []Span{{0, len(text)}}, 100, length); !errors.Is(err, context.Canceled) || spans != nil {
			t.Fatalf("canceled in call %d: got %v and %d spans", last, err, len(spans))
		}
		if calls != last {
			t.Fatalf("canceled in call %d, but there were %d", last, calls)
		}
		calls = 0
		length = func(s string) (int, error) {
			if calls++; calls == last {
				return 0, broken
			}
			return len(s), nil
		}
		if spans, err := Limit(t.Context(), text, []Span{{0, len(text)}}, 100, length); !errors.Is(err, broken) || spans != nil || calls != last {
			t.Fatalf("call %d of %d fails: got %v and %d spans", last, calls, err, len(spans))
		}
		cancel()
	}
}
