package rewardmodel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// liveModel scores by a hash of the tokens, and counts what it reads.
type liveModel struct {
	aspects int
	calls   int
	tokens  int // with those of each prompt once per call
	err     error
}

func (m *liveModel) Margins(batch []Sequence) ([]float32, error) {
	m.calls++
	var margins []float32
	var context *int32 // equal prompts share their tokens
	for _, q := range batch {
		m.tokens += len(q.IDs)
		if len(q.Context) > 0 && context != &q.Context[0] {
			context = &q.Context[0]
			m.tokens += len(q.Context)
		}
		for a := range m.aspects {
			margins = append(margins, 2*hashMargin(append([]int32{int32(a)}, q.IDs...)))
		}
	}
	return margins, m.err
}

func liveScorer(t testing.TB, m *liveModel, change func(*ScorerConfig)) *Scorer {
	t.Helper()
	cfg := ScorerConfig{Version: "v1", MaxLength: 12, EmptyReward: 0.25}
	for a := range m.aspects {
		cfg.Aspects = append(cfg.Aspects, Aspect{
			Name: fmt.Sprint("a", a), Weight: float64(a%3) + 0.5, LengthSlope: 0.3 * float64(a%2),
			Thresholds: map[Aggregate]float64{AggregateMax: 0.9, AggregateMean: 0.6, AggregateNoisyOr: 0.999, AggregateTopK: 0.8},
		})
	}
	if change != nil {
		change(&cfg)
	}
	s, err := NewScorer(cfg, m, words{}, nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// liveTexts are the pieces of random responses.
var liveTexts = []string{
	"I am well. ", "Nobody saw it, did they? ", "Ja! ", "\n\n", "- one item\n", "你好。", "👍🏽 ", "é ", "Dr. Who ", "... ",
	"```go\nx := 1\n", "```\n", "`<think>` ", "<think>", "</think>", "</thi", "` ", "a very long run of words without any end at all and still more words ",
	"| a | b |\n", "\xff", "\xe4\xbd", "They are awful. ", "I am well. ", " ", "  \t",
	// Ten further scripts.
	"Он пришёл домой. ", "Πού είσαι; ", "هل هو هنا؟ ", "הוא כאן. ", "वह घर गया। ", "তিনি এলেন। ", "彼は来た。", "그는 왔다. ", "เขามาแล้ว ", "Նա եկավ։ ",
	// Markdown, chats, mail and reasoning.
	"# Title\n\n", "1. first. Second\n", "> quoted. It is so.\n", "**Bold.** ", "[link](http://a.example/b.c) ", "---\n", "    code()\n", "~~~\n", "|-|-|\n",
	"User: why?\n", "Assistant: So. ", "<|im_start|>", "Dear Ann,\n", "Best,\nBob\n", "\r\n\r\n", "<think>\nShe asks. Hm.\n</think>\n\n", "</p>", "e.g. this ", "\"Yes.\" he said. ", "3.14 ",
}

func randomText(random *rand.Rand) string {
	var b strings.Builder
	for range random.IntN(24) {
		b.WriteString(liveTexts[random.IntN(len(liveTexts))])
	}
	return b.String()
}

func randomOptions(random *rand.Rand, aspects int) Options {
	o := Options{
		Reward:     []Reward{"", RewardCompliance, RewardLogit, RewardRaw}[random.IntN(4)],
		Aggregate:  Aggregates()[random.IntN(len(Aggregates()))],
		OffsetUnit: []OffsetUnit{"", OffsetUTF8, OffsetUTF16}[random.IntN(3)],
		Reasoning:  []Reasoning{"", "", "", ReasoningSkipOpened, ReasoningScore}[random.IntN(5)],
		Aspects:    random.IntN(2) == 0,
	}
	if random.IntN(2) == 0 {
		o.TopK = new(1 + random.IntN(5))
	}
	if random.IntN(3) == 0 {
		o.Combination = Combinations()[random.IntN(3)]
	}
	if aspects > 1 && random.IntN(3) == 0 {
		o.Weights = map[string]float64{"a0": 0, "a1": 2}
	}
	return o
}

// feedAll feeds text in random pieces and closes the session.
func feedAll(t *testing.T, l *Live, text string, next func() int) ([]LiveEvent, ScoreResponse) {
	t.Helper()
	var events []LiveEvent
	for at := 0; at < len(text); {
		cut := min(len(text), at+next())
		more, err := l.Feed(t.Context(), text[at:cut])
		require.NoError(t, err)
		events, at = append(events, more...), cut
	}
	more, answer, err := l.Close(t.Context())
	require.NoError(t, err)
	return append(events, more...), answer
}

// settled returns the events that no Reset and no later event replaces.
func settled(events []LiveEvent) []LiveEvent {
	var out []LiveEvent
	for _, e := range events {
		switch {
		case e.Reset:
			out = out[:e.Utterance.Index]
		case !e.Utterance.Provisional:
			out = append(out, e)
		}
	}
	return out
}
