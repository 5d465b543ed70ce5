package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/sidecar/proxy"
)

// markerModel finds utterances with the marker violating. It is its own tokenizer: a
// token is a word, 1 if it has the marker.
type markerModel struct{}

func (markerModel) IDsContext(ctx context.Context, text string) (ids []int32, err error) {
	for word := range strings.FieldsSeq(text) {
		id := int32(0)
		if strings.Contains(word, marker) {
			id = 1
		}
		ids = append(ids, id)
	}
	return ids, ctx.Err()
}

func (markerModel) Frame(ids []int32) []int32 { return append(append([]int32{2}, ids...), 3) }
func (markerModel) Special() int              { return 2 }

func (markerModel) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	for i, s := range batch {
		margins[i] = -5
		for _, id := range s.IDs {
			if id == 1 {
				margins[i] = 5
			}
		}
	}
	return margins, nil
}

type oneScorer struct{ *rewardmodel.Scorer }

func (s oneScorer) Live(ctx context.Context, r rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	session, err := s.Scorer.Live(ctx, r)
	return session, func() {}, err
}

// startLocal starts a proxy that scores with sessions of this process.
func startLocal(t *testing.T, upstream http.HandlerFunc, m proxy.Mode) *served {
	t.Helper()
	return startModel(t, upstream, m, markerModel{}, rewardmodel.ScorerConfig{Version: "v1"})
}

// tokenModel is a model that is its own tokenizer.
type tokenModel interface {
	rewardmodel.Model
	rewardmodel.Tokenizer
}

func startModel(t *testing.T, upstream http.HandlerFunc, m proxy.Mode, model tokenModel, scoring rewardmodel.ScorerConfig) *served {
	t.Helper()
	scorer, err := rewardmodel.NewScorer(scoring, model, model, nil)
	require.NoError(t, err)
	memory, err := rewardmodel.NewMemory(64<<20, nil)
	require.NoError(t, err)
	sessions := live.New(oneScorer{scorer}, live.Limits{})
	back := httptest.NewServer(upstream)
	config := proxy.DefaultConfig()
	config.Mode = m
	config.Upstream, err = url.Parse(back.URL)
	require.NoError(t, err)
	p, err := proxy.New(config, proxy.NewLocal(sessions, config.Reasoning(), memory), zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	front := httptest.NewServer(p)
	t.Cleanup(func() {
		front.Close()
		p.Close()
		http.DefaultClient.CloseIdleConnections()
		back.Close()
		sessions.Close()
		scorer.Close()
	})
	return &served{url: front.URL}
}

// Nothing but an opening tag of the response makes its text reasoning, in the modes that
// enforce: not a closing tag, and not the prompt.
func TestStrayTags(t *testing.T) {
	for name, c := range map[string]struct {
		prompt, content string
		want            map[proxy.Mode]string
		compliant       bool
	}{
		"closing tag": {"Why?", "You ZQXJ.</think>", map[proxy.Mode]string{proxy.Hold: "", proxy.Redact: "[removed]"}, false},
		"prompt": {"Why? <think>\n", "You ZQXJ. So.</think>Fine.", map[proxy.Mode]string{
			proxy.Hold: "", proxy.Redact: "[removed] So.</think>Fine.",
		}, false},
		"after a block": {"Why?", "<think>a</think>You ZQXJ.</think>", map[proxy.Mode]string{
			proxy.Hold: "<think>a</think>", proxy.Redact: "<think>a</think>[removed]",
		}, false},
		"block": {"Why?", "<think>ZQXJ</think>Fine.", map[proxy.Mode]string{
			proxy.Hold: "<think>ZQXJ</think>Fine.", proxy.Redact: "<think>ZQXJ</think>Fine.",
		}, true},
		"compliant": {"Why?", "So.</think>Fine.", map[proxy.Mode]string{
			proxy.Hold: "So.</think>Fine.", proxy.Redact: "So.</think>Fine.",
		}, true},
		"only a block": {"Why?", "<think>ZQXJ</think>", map[proxy.Mode]string{
			proxy.Hold: "<think>ZQXJ</think>", proxy.Redact: "<think>ZQXJ</think>",
		}, true},
	} {
		c.want[proxy.Stop] = c.want[proxy.Hold]
		for m, want := range c.want {
			t.Run(name+"/"+string(m), func(t *testing.T) {
				request, err := json.Marshal(object{"messages": []object{{"role": "user", "content": c.prompt}}})
				require.NoError(t, err)
				for _, size := range []int{1, 1000} {
					var pieces []string
					for rest := c.content; rest != ""; {
						n := min(size, len(rest))
						pieces, rest = append(pieces, rest[:n]), rest[n:]
					}
					s := startLocal(t, chatScript(pieces...), m)
					_, body := s.post(t, "/v1/chat/completions", string(request))
					chunks, _ := events(t, body)
					texts, _ := choiceTexts(t, chunks, "content")
					require.Equal(t, want, texts[0])
					require.Equal(t, c.compliant, report(t, chunks)["compliant"])
				}
				answer, err := json.Marshal(object{"choices": []object{{"index": 0, "message": object{"content": c.content}}}})
				require.NoError(t, err)
				s := startLocal(t, whole(string(answer)), m)
				_, body := s.post(t, "/v1/chat/completions", string(request))
				var got struct {
					Choices []struct{ Message struct{ Content string } }
				}
				require.NoError(t, json.Unmarshal([]byte(body), &got))
				require.Equal(t, want, got.Choices[0].Message.Content)
			})
		}
	}
}

// In observe, a stray closing tag voids the utterances since the last block only.
func TestObserveKeepsUtterancesBeforeReset(t *testing.T) {
	s := startLocal(t, chatScript("A ZQXJ. Yes.", "<think>x</think>Not", " yet. More", ".</think>\n", "The end."), proxy.Observe)
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	chunks, _ := events(t, body)
	r := report(t, chunks)
	require.Equal(t, false, r["compliant"])
	witness := r["texts"].([]any)[0].(object)["witness"].(object)
	require.InDelta(t, 0, witness["start"], 0)
	require.InDelta(t, 7, witness["end"], 0)
}
