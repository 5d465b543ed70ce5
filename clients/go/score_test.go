package assay_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	assay "assay/clients/go"
)

func TestScore(t *testing.T) {
	var got scoreRequest
	var header http.Header
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, header = readRequest(r), r.Header
		reply(w, 200, answer(result("a", "0.75")))
	}), assay.WithToken("secret"), assay.WithModel("v1"))
	item := assay.Text("Fine <b>. é")
	item.ID = "a"
	a, err := c.Score(t.Context(), []assay.Item{item}, assay.Options{Reward: assay.RewardRaw, TopK: 2, OmitInstances: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := a.Results[0]; r.Reward != 0.75 || !r.Compliant || r.Witness.Text != "x" || r.Model.Version != "v1" || r.OffsetUnit != "utf8" || a.Timing.Inference != 1 {
		t.Errorf("got %+v", a)
	}
	if got.Responses[0]["response"] != "Fine <b>. é" || got.Model != "v1" || got.Options["reward"] != "raw" || got.Options["top_k"] != 2.0 ||
		got.Options["offset_unit"] != "utf8" || got.Options["instances"] != false || len(got.Options) != 4 {
		t.Errorf("sent %+v", got)
	}
	if header.Get("Authorization") != "Bearer secret" || header.Get("X-Request-Timeout") < "58" {
		t.Errorf("sent %v", header)
	}
}

func TestDenseRewards(t *testing.T) {
	answers := map[string]string{
		"as many as tokens": `"token_rewards":[0.25,0.5]`,
		"too few":           `"token_rewards":[0.75]`,
		"none":              `"x":1`,
		"null in between":   `"token_rewards":[0.75,null]`,
	}
	for name, more := range answers {
		t.Run(name, func(t *testing.T) {
			var got scoreRequest
			c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = readRequest(r)
				reply(w, 200, answer(strings.TrimSuffix(result("a", "0.75"), "}")+","+more+"}"))
			}))
			item := assay.Text("Fine.")
			item.TokenOffsets = [][2]int{{0, 4}, {4, 5}}
			a, err := c.Score(t.Context(), []assay.Item{item}, assay.Options{Dense: assay.DenseShaped, Gamma: 0.99})
			if name == "as many as tokens" {
				if err != nil || !slices.Equal(a.Results[0].TokenRewards, []float64{0.25, 0.5}) {
					t.Fatal(a, err)
				}
				if got.Options["dense"] != "shaped" || got.Options["gamma"] != 0.99 || len(got.Responses[0]["token_offsets"].([]any)) != 2 {
					t.Errorf("sent %+v", got)
				}
				return
			}
			var invalid *assay.InvalidResponseError
			if !errors.As(err, &invalid) {
				t.Errorf("got %v, %v", a, err)
			}
		})
	}
}

func TestAspects(t *testing.T) {
	rude := `{"reward":0.25,"compliant":false,"violation":0.75,"threshold":0.5,"witness":null}`
	for more, valid := range map[string]bool{
		`"aspect":"rude","aspects":{"rude":` + rude + `}`:                     true,
		`"aspects":{"rude":` + strings.Replace(rude, "0.25", "null", 1) + `}`: false,
		`"aspects":{"rude":{}}`: false,
		`"aspects":{}`:          false,
		`"aspects":null`:        false,
	} {
		t.Run(more, func(t *testing.T) {
			c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, answer(strings.TrimSuffix(result("a", "0.25"), "}")+","+more+"}"))
			}))
			a, err := c.Score(t.Context(), assay.Texts("Fine."), assay.Options{Aspects: true})
			var invalid *assay.InvalidResponseError
			switch {
			case !valid && !errors.As(err, &invalid):
				t.Errorf("got %v, %v", a, err)
			case valid && (err != nil || a.Results[0].Aspects["rude"].Reward != 0.25):
				t.Error(a, err)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	var mu sync.Mutex
	var got [][]string
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked := readRequest(r)
		mu.Lock()
		got = append(got, r.Header.Values("X-Priority"))
		mu.Unlock()
		if len(asked.Options) != 1 {
			t.Errorf("sent %+v", asked)
		}
		reply(w, 200, answer(result("a", "0.75")))
	}), assay.WithChunk(1, 1<<20))
	if _, err := c.Score(t.Context(), assay.Texts("Fine."), assay.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ScoreAll(t.Context(), assay.Texts("Fine.", "Bad."), assay.Options{Priority: assay.PriorityBulk}); err != nil {
		t.Fatal(err)
	}
	want := [][]string{nil, {"bulk"}, {"bulk"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("sent %v", got)
	}
}

func TestServiceTokenizer(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, answer(strings.TrimSuffix(result("a", "0.75"), "}")+`,"token_rewards":[0.25,0.5],"token_offsets":[[0,4],[4,5]]}`))
	}))
	a, err := c.Score(t.Context(), assay.Texts("Fine."), assay.Options{Dense: assay.DenseLast, Tokenizer: "policy"})
	if err != nil || len(a.Results[0].TokenOffsets) != 2 || a.Results[0].TokenOffsets[1] != [2]int{4, 5} {
		t.Fatal(a, err)
	}
}

func TestScoreAllOrder(t *testing.T) {
	var most, now atomic.Int32
	var mu sync.Mutex
	connections := map[string]bool{}
	held := make(chan struct{}) // closed by the second request, so that the first is the slowest
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for n := now.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer now.Add(-1)
		mu.Lock()
		connections[r.RemoteAddr] = true
		mu.Unlock()
		switch requests.Add(1) {
		case 1:
			<-held
		case 2:
			close(held)
		}
		score(w, r)
	})
	c := client(t, url, assay.WithChunk(7, 1<<20), assay.WithConcurrency(3))
	items := numbers(200)
	results, err := c.ScoreAll(t.Context(), items, assay.Options{})
	if err != nil || len(results) != len(items) {
		t.Fatal(len(results), err)
	}
	for i, r := range results {
		if r.ID != items[i].ID || r.Reward != float64(i)/200 {
			t.Fatalf("result %d is %+v", i, r)
		}
	}
	if most.Load() > 3 || most.Load() < 2 || len(connections) > 3 {
		t.Errorf("%d concurrent requests on %d connections", most.Load(), len(connections))
	}
	if requests.Load() != 29 {
		t.Errorf("%d requests for 200 items, 7 per request", requests.Load())
	}
	if none, err := c.ScoreAll(t.Context(), nil, assay.Options{}); err != nil || len(none) != 0 || requests.Load() != 29 {
		t.Error(none, err)
	}
}

func TestChunksByBytes(t *testing.T) {
	var sizes []int
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		in := readRequest(r)
		sizes = append(sizes, len(in.Responses))
		results := make([]string, len(in.Responses))
		for i := range results {
			results[i] = result("x", "1")
		}
		reply(w, 200, answer(results...))
	}), assay.WithChunk(64, 100), assay.WithConcurrency(1))
	long := strings.Repeat("a", 300)
	if _, err := c.ScoreAll(t.Context(), assay.Texts("a", "b", long, "c", "d"), assay.Options{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sizes, []int{2, 1, 2}) {
		t.Error(sizes)
	}
}

func TestTooLargeRequestIsSplit(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		in := readRequest(r)
		if len(in.Responses) > 3 || slices.ContainsFunc(in.Responses, func(m map[string]any) bool { return m["id"] == "huge" }) {
			refuse(w, http.StatusRequestEntityTooLarge, "too_large", "")
			return
		}
		var results []string
		for _, it := range in.Responses {
			results = append(results, result(it["id"].(string), it["response"].(string)))
		}
		reply(w, 200, answer(results...))
	})
	c := client(t, url)
	items := numbers(20)
	results, err := c.ScoreAll(t.Context(), items, assay.Options{})
	if err != nil || len(results) != 20 || results[19].ID != "r19" {
		t.Fatal(results, err)
	}
	items[13].ID = "huge"
	_, err = c.ScoreAll(t.Context(), items, assay.Options{})
	var apiErr *assay.APIError
	if !errors.As(err, &apiErr) || apiErr.Item != 13 || !errors.Is(err, assay.ErrInvalid) {
		t.Error(err)
	}
}

func TestErrorHasItem(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i, it := range readRequest(r).Responses {
			if it["id"] == "r17" {
				refuse(w, 400, "invalid", []string{"responses[0].response", "responses[1].response", "responses[2].response"}[i])
				return
			}
		}
		refuse(w, 503, "overloaded", "") // all other requests are retried forever
	})
	c := client(t, url, assay.WithChunk(3, 1<<20), assay.WithConcurrency(8))
	_, err := c.ScoreAll(t.Context(), numbers(18)[15:], assay.Options{})
	var apiErr *assay.APIError
	if !errors.As(err, &apiErr) || apiErr.Item != 2 || apiErr.Code != "invalid" || apiErr.RequestID != "R1" || apiErr.Field != "responses[2].response" {
		t.Fatalf("%+v", err)
	}
}

func TestInvalidItems(t *testing.T) {
	var requests atomic.Int32
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) { requests.Add(1); score(w, r) }), assay.WithChunk(2, 1<<20))
	broken := "ok \xff"
	for name, bad := range map[string]assay.Item{
		"response": assay.Text(broken), "prompt": {Prompt: broken}, "instances[1]": {Instances: []string{"a", broken}},
		"messages[0].content": {Messages: []assay.Message{{"assistant", broken}}}, "metadata": {Metadata: math.NaN()},
	} {
		_, err := c.Score(t.Context(), []assay.Item{assay.Text("0"), bad}, assay.Options{})
		var inputErr *assay.InputError
		if !errors.As(err, &inputErr) || inputErr.Item != 1 || inputErr.Field != name || !errors.Is(err, assay.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Score(t.Context(), assay.Texts("0"), assay.Options{Gamma: math.NaN()}); !errors.Is(err, assay.ErrInvalid) {
		t.Error(err)
	}
	if requests.Load() != 0 {
		t.Error("a request was sent")
	}
	n := 0
	for _, err := range c.ScoreSeq(t.Context(), slices.Values(append(numbers(5), assay.Text(broken))), assay.Options{}) {
		if err == nil {
			n++
			continue
		}
		var inputErr *assay.InputError
		if !errors.As(err, &inputErr) || inputErr.Item != 5 {
			t.Error(err)
		}
	}
	if n != 5 {
		t.Errorf("%d results before the invalid item", n)
	}
}

// Leaving the loop cancels the requests in flight and stops reading items.
func TestScoreSeqStops(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if in := readRequest(r); in.Responses[0]["id"] != "r0" {
			<-r.Context().Done()
			return
		}
		reply(w, 200, answer(result("r0", "0.5")))
	})
	c := client(t, url, assay.WithChunk(1, 1<<20), assay.WithConcurrency(2))
	read := 0
	items := func(yield func(assay.Item) bool) {
		for _, it := range numbers(100) {
			read++
			if !yield(it) {
				return
			}
		}
	}
	for r, err := range c.ScoreSeq(t.Context(), items, assay.Options{}) {
		if err != nil || r.Reward != 0.5 {
			t.Fatal(r, err)
		}
		break
	}
	if read > 6 {
		t.Errorf("%d items were read for one result", read)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ScoreAll(ctx, numbers(3), assay.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
