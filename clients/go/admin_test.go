package assay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	assay "assay/clients/go"
)

func TestFeedback(t *testing.T) {
	var lines []string
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		lines = append(lines, sent...)
		if r.Header.Get("Content-Type") != "application/x-ndjson" {
			refuse(w, 415, "unsupported_media_type", "")
			return
		}
		reply(w, 202, fmt.Sprintf(`{"accepted":%d,"duplicates":1,"rejected":[{"index":1,"id":"x","code":"erased","message":"gone"}]}`, len(sent)-2))
	}))
	items := make([]assay.FeedbackItem, 1200)
	for i := range items {
		items[i] = assay.FeedbackItem{ID: fmt.Sprint(i), Label: assay.LabelViolation, Response: new(string)}
	}
	items[3].Time = time.Date(2026, 9, 1, 9, 30, 0, 0, time.UTC)
	receipt, err := c.Feedback(t.Context(), items)
	if err != nil || receipt.Accepted != 1194 || receipt.Duplicates != 3 || len(receipt.Rejected) != 3 || receipt.Rejected[2].Index != 1001 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if len(lines) != 1200 || lines[3] != `{"id":"3","label":"violation","response":"","time":"2026-09-01T09:30:00Z"}` || strings.Contains(lines[4], "time") {
		t.Error(lines[:5])
	}
	if none, err := c.Feedback(t.Context(), nil); err != nil || none.Accepted != 0 || len(lines) != 1200 {
		t.Error(none, err)
	}
	items[7].ID = "\xff"
	var inputErr *assay.InputError
	if _, err := c.Feedback(t.Context(), items); !errors.As(err, &inputErr) || inputErr.Item != 7 {
		t.Error(err)
	}
}

// Labels that are too large for one request are sent in halves.
func TestFeedbackTooLarge(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		bad := slices.IndexFunc(sent, func(line string) bool { return strings.Contains(line, `"id":"506"`) })
		switch {
		case len(sent) > 2 || strings.Contains(string(body), "large"):
			refuse(w, 413, "too_large", "")
		case bad >= 0:
			reply(w, 202, fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[{"index":%d,"id":"506","code":"invalid","message":"no"}]}`, len(sent)-1, bad))
		default:
			reply(w, 202, fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[]}`, len(sent)))
		}
	}))
	items := make([]assay.FeedbackItem, 508)
	for i := range items {
		items[i] = assay.FeedbackItem{ID: fmt.Sprint(i), Label: assay.LabelViolation, Response: new(string)}
	}
	receipt, err := c.Feedback(t.Context(), items)
	if err != nil || receipt.Accepted != 507 || len(receipt.Rejected) != 1 || receipt.Rejected[0].Index != 506 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	items[503].Prompt = "large"
	receipt, err = c.Feedback(t.Context(), items)
	var apiErr *assay.APIError
	if !errors.As(err, &apiErr) || apiErr.Item != 503 || receipt.Accepted != 503 {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// A receipt that does not account for every label is invalid.
func TestIncompleteReceipt(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 202, `{"accepted":1,"duplicates":0,"rejected":[]}`)
	}))
	var invalid *assay.InvalidResponseError
	if _, err := c.Feedback(t.Context(), make([]assay.FeedbackItem, 2)); !errors.As(err, &invalid) {
		t.Error(err)
	}
}

func TestCalls(t *testing.T) {
	var asked []string
	answers := map[string]string{
		"GET /v1/models":                                 `{"object":"list","data":[{"id":"v1","version":"v1","current":true}]}`,
		"GET /v1/models/a%2Fb":                           `{"id":"v1","version":"v1","data":{"bags":7},"gate":{"x":1}}`,
		"POST /v1/models/v1/promote":                     `{"version":"v1","since":"2026-01-01T00:00:00Z","by":"me","reason":"why"}`,
		"POST /v1/models/rollback":                       `{"version":"v0","since":"2026-01-01T00:00:00Z","by":"me","reason":"","previous":["a"]}`,
		"GET /v1/training":                               `{"phase":"idle","auto":true,"wait":"labels","feedback":{"bags":3},"drift":{"p_value":0.5},"disagreement":{"labels":2}}`,
		"POST /v1/training":                              `{"phase":"idle","asked":{"by":"me","time":"2026-01-01T00:00:00Z"}}`,
		"POST /v1/training/stop":                         `{"phase":"training","canceled":{"by":"me","time":"2026-01-01T00:00:00Z"}}`,
		"GET /v1/feedback":                               `{"bags":3,"violations":1,"held_out":1,"new":{"bags":2,"violations":1}}`,
		"GET /v1/feedback/candidates?n=5":                `{"candidates":[{"id":"c","violation":0.5}]}`,
		"GET /v1/feedback/r%2F1/labels":                  `{"id":"r/1","label":"violation","raters":1,"labels":[{"rater":"ann","label":"violation","sequence":7}]}`,
		"DELETE /v1/feedback/r%2F1/labels?rater=ann+%26": `{"id":"r/1","records":1}`,
		"DELETE /v1/feedback/r%20%2F%3F":                 `{"id":"r /?","records":2}`,
		"GET /v1/events?n=3":                             `[{"sequence":4,"kind":"model.promoted","time":"2026-01-01T00:00:00Z","reason":"r"}]`,
		"GET /readyz":                                    `{"status":"ready"}`,
	}
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		if text := answers[r.Method+" "+r.RequestURI]; text != "" {
			reply(w, 200, text)
			return
		}
		refuse(w, 404, "not_found", r.RequestURI)
	}))
	ctx := t.Context()
	models, err1 := c.Models(ctx)
	record, err2 := c.Model(ctx, "a/b")
	promoted, err3 := c.Promote(ctx, "v1", "why")
	rolled, err4 := c.Rollback(ctx, "")
	training, err5 := c.Training(ctx)
	started, err6 := c.StartTraining(ctx, assay.TrainingRequest{Refreeze: true})
	stopped, err11 := c.StopTraining(ctx, assay.TrainingStop{ID: "t1"})
	stats, err7 := c.FeedbackStats(ctx)
	found, err8 := c.Candidates(ctx, 5)
	erased, err9 := c.EraseFeedback(ctx, "r /?")
	labels, err12 := c.ResponseLabels(ctx, "r/1")
	withdrawn, err13 := c.WithdrawLabel(ctx, "r/1", "ann &")
	events, err10 := c.RecentEvents(ctx, 3)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, c.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	if !models[0].Current || record.Data.Bags != 7 || record.Version != "v1" || string(record.Gate) != `{"x":1}` || promoted.Reason != "why" ||
		rolled.Previous[0] != "a" || training.Feedback.Bags != 3 || training.Drift.PValue != 0.5 || training.Disagreement.Labels != 2 ||
		started.Requested.By != "me" || stopped.Canceled.By != "me" || stats.Bags != 3 || stats.New.Bags != 2 || found[0].ID != "c" || erased != 2 || labels.Labels[0].Rater != "ann" || withdrawn != 1 || events[0].Sequence != 4 {
		t.Error(models, record, promoted, rolled, training, started, stopped, stats, found, erased, labels, withdrawn, events)
	}
	if asked[2] != `{"reason":"why"}` || asked[3] != `{}` || asked[5] != `{"refreeze":true}` || asked[6] != `{"id":"t1"}` {
		t.Error(asked)
	}
	var inputErr *assay.InputError
	if _, err := c.Model(ctx, ".."); !errors.As(err, &inputErr) {
		t.Error(err)
	}
	if _, err := c.Promote(ctx, "nobody", ""); !errors.Is(err, assay.ErrNotFound) {
		t.Error(err)
	}
}

// A response with status 200 and the wrong shape is invalid.
func TestInvalidResponses(t *testing.T) {
	for _, body := range []string{`{}`, `null`, `[]`, `"x"`, `{"data":[{}]}`, `[{}]`} {
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, body) }), assay.WithRetry(assay.Retry{}))
		ctx := t.Context()
		for name, err := range map[string]error{
			"models": second(c.Models(ctx)), "model": second(c.Model(ctx, "a")), "promote": second(c.Promote(ctx, "a", "")),
			"training": second(c.Training(ctx)), "start": second(c.StartTraining(ctx, assay.TrainingRequest{})), "stop": second(c.StopTraining(ctx, assay.TrainingStop{})), "stats": second(c.FeedbackStats(ctx)),
			"candidates": second(c.Candidates(ctx, 1)), "erase": second(c.EraseFeedback(ctx, "a")), "labels": second(c.ResponseLabels(ctx, "a")), "withdraw": second(c.WithdrawLabel(ctx, "a", "b")), "ready": c.Ready(ctx),
			"feedback": second(c.Feedback(ctx, make([]assay.FeedbackItem, 1))), "score": second(c.Score(ctx, assay.Texts("a"), assay.Options{})),
		} {
			var invalid *assay.InvalidResponseError
			if !errors.As(err, &invalid) {
				t.Errorf("%s of %s: %v", name, body, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNew(t *testing.T) {
	for _, address := range []string{"", "localhost:8080", "ftp://x", "http://", "http://x?y=1", "http://u:p@x"} {
		if _, err := assay.New(address); !errors.Is(err, assay.ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, o := range []assay.Option{
		assay.WithTimeout(0), assay.WithChunk(0, 1), assay.WithChunk(1, 0), assay.WithConcurrency(0), assay.WithRetry(assay.Retry{Budget: 1}),
	} {
		if _, err := assay.New("http://x", o); !errors.Is(err, assay.ErrInvalid) {
			t.Error(err)
		}
	}
	if _, err := assay.New("https://host/under/"); err != nil {
		t.Error(err)
	}
}

func event(n int) string {
	return fmt.Sprintf("id: %d\nevent: model.trained\ndata: {\"sequence\":%d,\"kind\":\"model.trained\",\ndata: \"time\":\"2026-01-01T00:00:00Z\",\"reason\":\"r\"}\n\n", n, n)
}

// The client resumes an interrupted event stream after the last event.
func TestEvents(t *testing.T) {
	var asked []string
	var n atomic.Int32
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("after")+" "+r.Header.Get("Accept"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch n.Add(1) {
		case 1:
			_, _ = io.WriteString(w, "retry: 2000\n\n"+event(5)+": heartbeat\n\n"+strings.ReplaceAll(event(6), "\n", "\r\n")+event(7)[:30])
		case 2:
			refuse(w, 503, "shutting_down", "")
		case 3:
			_, _ = io.WriteString(w, event(7))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 4:
			_, _ = io.WriteString(w, event(8)+"event: failed\ndata: {\"error\":{\"code\":\"unavailable\",\"message\":\"lost\"}}\n\n")
		default:
			_, _ = io.WriteString(w, event(9))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	var got []uint64
	for e, err := range c.Events(t.Context(), 4) {
		if err != nil || e.Reason != "r" {
			t.Fatal(e, err)
		}
		if got = append(got, e.Sequence); e.Sequence == 9 {
			break
		}
	}
	if !slices.Equal(got, []uint64{5, 6, 7, 8, 9}) || !slices.Equal(asked, []string{
		"4 text/event-stream", "6 text/event-stream", "6 text/event-stream", "7 text/event-stream", "8 text/event-stream",
	}) {
		t.Error(got, asked)
	}
}

func TestEventsEnd(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 501, "not_enabled", "") }))
	n := 0
	for _, err := range c.Events(t.Context(), 0) {
		if n++; !errors.Is(err, assay.ErrNotEnabled) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c = client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, event(1))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	for e, err := range c.Events(ctx, 0) {
		if e.Sequence == 1 {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// An event that the service cannot read ends neither the stream nor, whenever the client
// reconnects, the events after it.
func TestUnreadableEvent(t *testing.T) {
	const unreadable = "id: 6\nevent: failed\ndata: {\"error\":{\"code\":\"internal\",\"message\":\"damaged\"}}\n\n"
	var asked []string
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("after"))
		switch len(asked) {
		case 1:
			_, _ = io.WriteString(w, event(5)+unreadable)
		case 2:
			_, _ = io.WriteString(w, event(7)+strings.Replace(unreadable, "6", "8", 1)+event(9))
		default:
			t.Error("asked again")
		}
	}))
	var got []uint64
	for e, err := range c.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.Sequence); e.Sequence == 9 {
			break
		}
	}
	if !slices.Equal(got, []uint64{5, 7, 9}) || !slices.Equal(asked, []string{"", "6"}) {
		t.Error(got, asked)
	}
}

// The client reconnects after a time without events and heartbeats.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := offlineClient(t, func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				in, out := io.Pipe()
				context.AfterFunc(r.Context(), func() { out.CloseWithError(r.Context().Err()) })
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: in}, nil
			}
			return newResponse(200, event(1))
		})
		start := time.Now()
		for e, err := range c.Events(t.Context(), 0) {
			if err != nil || e.Sequence != 1 {
				t.Fatal(e, err)
			}
			break
		}
		if spent := time.Since(start); spent < 45*time.Second || spent > 46*time.Second {
			t.Errorf("reconnected after %v", spent)
		}
	})
}
