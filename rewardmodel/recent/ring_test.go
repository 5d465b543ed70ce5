package recent_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/recent"
)

// scored is a request with responses of the given texts, its results and what their
// Scorer observed.
func scored(texts ...string) (rewardmodel.Request, rewardmodel.ScoreResponse, []rewardmodel.Observation) {
	req := rewardmodel.Request{Source: "http /v1/score", Options: rewardmodel.Options{Reward: rewardmodel.RewardLogit}}
	resp := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Version: "v7"}}
	var obs []rewardmodel.Observation
	for _, text := range texts {
		req.Responses = append(req.Responses, rewardmodel.Item{Prompt: "Why?", Response: &text})
		resp.Results = append(resp.Results, rewardmodel.Result{
			ID: text, Reward: -1.5, Violation: 0.8, Threshold: 0.41, Witness: &rewardmodel.Witness{Text: "You " + text},
		})
		obs = append(obs, rewardmodel.Observation{Compliance: 0.2, Utterances: 3})
	}
	return req, resp, obs
}

func ids(all []*recent.Response) (out []string) {
	for _, r := range all {
		out = append(out, r.ID)
	}
	return out
}

func TestRingDescribesResponses(t *testing.T) {
	r := recent.New(recent.Config{Texts: time.Hour})
	r.Observe(scored("fööl"))
	all, next, changed := r.After(0, 10)
	require.Nil(t, changed)
	require.Len(t, all, 1)
	got := recent.WithoutKept(*all[0])
	require.Equal(t, next, got.Sequence)
	require.WithinDuration(t, time.Now(), got.Time, time.Minute)
	require.Len(t, got.Group, 16)
	got.Sequence, got.Time, got.Group = 0, time.Time{}, ""
	require.Equal(t, recent.Response{
		ID: "fööl", Source: "http /v1/score", Model: "v7", Reward: -1.5, Scale: "logit", Compliance: 0.2, Violation: 0.8,
		Threshold: 0.41, Utterances: 3, Characters: 4, Prompt: "Why?", Response: "fööl", Witness: "You fööl",
	}, got)
}

// A wall clock that is set back does not keep texts for longer.
func TestRingDropsTextsByTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recent.New(recent.Config{Texts: time.Hour})
		r.Observe(scored("x"))
		all, _, _ := r.After(0, 10)
		require.NotEmpty(t, all[0].Response)
		all[0].Time = time.Now().Add(24 * time.Hour) // as a clock that was ahead has stamped it
		<-time.After(time.Hour + time.Second)
		all, _, _ = r.After(0, 10)
		require.Empty(t, all[0].Response)
	})
}

// Without the setting that keeps texts, nothing of them is in memory.
func TestRingOmitsTexts(t *testing.T) {
	r := recent.New(recent.Config{})
	require.False(t, r.KeepsTexts())
	r.Observe(scored("x"))
	all, _, _ := r.After(0, 10)
	require.Empty(t, all[0].Prompt+all[0].Response+all[0].Witness)
	require.NotEmpty(t, all[0].Group, "responses to one prompt are comparable without it")
}

func TestRingReadsMetadata(t *testing.T) {
	step := func(n float64) *float64 { return &n }
	for metadata, want := range map[string]struct {
		step  *float64
		group string
	}{
		`{"step":12,"group":"g1"}`:                   {step(12), "g1"},
		`{"x":{"step":3},"step":0.5,"group":7}`:      {step(0.5), "7"},
		`{"step":"12","group":["g"]}`:                {nil, ""},
		`{"step":1e999}`:                             {nil, ""},
		`{"step":null,"group":null}`:                 {nil, ""},
		`["step","group"]`:                           {nil, ""},
		`"step"`:                                     {nil, ""},
		`{"step":1,"pad":"` + long(5000) + `"}`:      {nil, ""}, // more than is decoded
		`{"group":"` + long(127) + `é` + `"}`:        {nil, long(127)},
		`{"step":1,"step":2}`:                        {nil, ""},
		`{"group":"\ud83d\ude00","step":-3,"a":"b"}`: {step(-3), "😀"},
	} {
		r := recent.New(recent.Config{})
		req, resp, obs := scored("x")
		req.Responses[0].Prompt, req.Responses[0].Metadata = "", jsontext.Value(metadata)
		r.Observe(req, resp, obs)
		all, _, _ := r.After(0, 1)
		require.Equal(t, want.step, all[0].Step, "%.80s", metadata)
		require.Equal(t, want.group, all[0].Group, "%.80s", metadata)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestRingGroupsByPrompt(t *testing.T) {
	r := recent.New(recent.Config{Texts: time.Hour})
	user := func(text string) rewardmodel.Message { return rewardmodel.Message{Role: "user", Content: text} }
	assistant := func(text string) rewardmodel.Message {
		return rewardmodel.Message{Role: rewardmodel.RoleAssistant, Content: text}
	}
	req, resp, obs := scored("a", "b", "c", "d", "e")
	req.Responses[1].Prompt = "Why not?"
	req.Responses[2].Metadata = jsontext.Value(`{"group":"g"}`)
	req.Responses[3] = rewardmodel.Item{Messages: []rewardmodel.Message{user("Why?"), assistant("Be"), user("?"), assistant("cause")}}
	req.Responses[4] = rewardmodel.Item{Instances: []string{"x", "y"}}
	r.Observe(req, resp, obs)
	all, _, _ := r.After(0, 10)
	require.Equal(t, all[0].Group, all[3].Group)
	require.NotEqual(t, all[0].Group, all[1].Group)
	require.Equal(t, "g", all[2].Group)
	require.Empty(t, all[4].Group)
	require.Equal(t, "Be\ncause", all[3].Response)
	require.Equal(t, "Why?", all[3].Prompt)
	require.Equal(t, 7, all[3].Characters)
	require.Equal(t, "x\ny", all[4].Response)

	other := recent.New(recent.Config{})
	other.Observe(req, resp, obs)
	keyed, _, _ := other.After(0, 10)
	require.NotEqual(t, all[0].Group, keyed[0].Group, "a hash that anyone can compute would confirm a guessed prompt")
}

func TestRingIsBounded(t *testing.T) {
	r := recent.New(recent.Config{MaxResponses: 3})
	first := r.Newest()
	for i := range 5 {
		r.Observe(scored(fmt.Sprint(i)))
	}
	all, next, _ := r.After(0, 10)
	require.Equal(t, []string{"2", "3", "4"}, ids(all))
	require.Equal(t, first+5, next)
	all, next, _ = r.After(first+3, 1)
	require.Equal(t, []string{"3"}, ids(all))
	require.Equal(t, first+4, next)
	all, _, _ = r.After(first+99, 10)
	require.Len(t, all, 3, "an unknown sequence")
	require.Equal(t, first+3, r.Before(2))
	require.Equal(t, first+2, r.Before(99))
	require.Equal(t, first+5, r.Before(0))

	big := recent.New(recent.Config{MaxBytes: 50_000, Texts: time.Hour})
	for range 9 {
		req, resp, obs := scored(strings.Repeat("é", 1<<20))
		resp.Results[0].ID = "x"
		big.Observe(req, resp, obs)
	}
	all, _, _ = big.After(0, 10)
	require.Len(t, all, 2, "50 kB hold two texts of 16 KiB")
	require.Len(t, all[0].Response, 16<<10)
	require.True(t, utf8.ValidString(all[0].Response))
	require.Equal(t, 1<<20, all[0].Characters, "of the whole text")
}

func TestRingReportsChanges(t *testing.T) {
	r := recent.New(recent.Config{})
	all, next, changed := r.After(0, 10)
	require.Empty(t, all)
	select {
	case <-changed:
		t.Fatal("nothing has changed")
	default:
	}
	r.Observe(scored("x"))
	<-changed
	all, next, changed = r.After(next, 10)
	require.Equal(t, []string{"x"}, ids(all))
	require.Nil(t, changed)
	_, _, changed = r.After(next, 10)
	require.NotNil(t, changed)
}

func TestRingOmitsErasedResponses(t *testing.T) {
	erased := map[string]bool{}
	r := recent.New(recent.Config{Texts: time.Hour, Erased: func(id string) bool { return erased[id] }})
	r.Observe(scored("a", "b", "c"))
	erased["b"] = true
	all, _, _ := r.After(0, 10)
	require.Equal(t, []string{"a", "c"}, ids(all))
	first, next, changed := r.After(all[0].Sequence, 1)
	require.Empty(t, first)
	require.Nil(t, changed, "there is more")
	require.Equal(t, all[0].Sequence+1, next)
}

func TestRingForgetsTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recent.New(recent.Config{Texts: time.Minute})
		r.Observe(scored("a"))
		<-time.After(40 * time.Second)
		r.Observe(scored("b"))
		read := func() (texts []string) {
			all, _, _ := r.After(0, 10)
			for _, a := range all {
				texts = append(texts, a.Prompt+a.Response+a.Witness)
			}
			return texts
		}
		require.Equal(t, []string{"Why?aYou a", "Why?bYou b"}, read())
		<-time.After(21 * time.Second)
		require.Equal(t, []string{"", "Why?bYou b"}, read())
		<-time.After(time.Minute)
		require.Equal(t, []string{"", ""}, read())
	})
}

// A request is recorded whole or skipped whole, and the average rate is bounded.
func TestRingSamplesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recent.New(recent.Config{MaxRate: 10})
		for range 100 { // 200 responses per second for 10 seconds
			r.Observe(scored("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"))
			<-time.After(100 * time.Millisecond)
		}
		all, _, _ := r.After(0, 5000)
		require.InDelta(t, 110, len(all), 20, "a second is saved at the start, and the last request may exceed the rate")
		require.Zero(t, len(all)%20)
		count, skipped := r.Counts()
		require.EqualValues(t, 2000, count)
		require.EqualValues(t, 2000-len(all), skipped)
	})
}

// Whatever is not skipped is recorded, and readers see increasing sequences.
func TestRingIsSafeForConcurrentUse(t *testing.T) {
	r := recent.New(recent.Config{MaxRate: 1e6})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				r.Observe(scored("a", "b"))
			}
		})
	}
	group.Go(func() {
		last := uint64(0)
		for range 200 {
			all, _, _ := r.After(last, 100)
			for _, a := range all {
				require.Greater(t, a.Sequence, last)
				last = a.Sequence
			}
		}
	})
	group.Wait()
	all, _, _ := r.After(0, 5000)
	count, skipped := r.Counts()
	require.EqualValues(t, 1600, count)
	require.EqualValues(t, count-skipped, len(all))
}

func BenchmarkObserve(b *testing.B) {
	text := strings.Repeat("Thank you for asking. ", 100)
	for name, c := range map[string]struct {
		config   recent.Config
		metadata string
	}{
		"numbers":  {recent.Config{MaxRate: 1e9}, ""},
		"metadata": {recent.Config{MaxRate: 1e9}, `{"step":12,"group":"g17"}`},
		"texts":    {recent.Config{MaxRate: 1e9, Texts: time.Hour}, ""},
		"skipped":  {recent.Config{MaxRate: 1}, ""},
	} {
		b.Run(name, func(b *testing.B) {
			r := recent.New(c.config)
			req, resp, obs := scored(text, text, text, text)
			for i := range req.Responses {
				resp.Results[i].ID, req.Responses[i].Metadata = "r1", jsontext.Value(c.metadata)
			}
			b.ReportAllocs()
			for b.Loop() {
				r.Observe(req, resp, obs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4), "ns/response")
		})
	}
}
