package api_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// fakeFleet is an in-memory feedback loop that records its calls.
type fakeFleet struct {
	calls   []string
	batch   feedback.Batch
	err     error  // of every call
	called  func() // nil, or called by each
	current retrain.Current
	records []retrain.Model
}

func (f *fakeFleet) record(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	if f.called != nil {
		f.called()
	}
	return f.err
}

func (f *fakeFleet) Append(_ context.Context, batch feedback.Batch, by string) (feedback.Receipt, error) {
	f.batch = batch
	return feedback.Receipt{Accepted: len(batch.Items), Rejected: batch.Rejected}, f.record("append %s by %s", batch.ID, by)
}

func (f *fakeFleet) Erase(_ context.Context, id, by string) (int, error) {
	return 2, f.record("erase %s by %s", id, by)
}

func (f *fakeFleet) Withdraw(_ context.Context, id, rater, by string) (int, error) {
	return 1, f.record("withdraw %s of %q by %s", id, rater, by)
}

func (f *fakeFleet) Labels(_ context.Context, id string) (feedback.ResponseLabels, error) {
	at := time.Unix(1_800_000_000, 0).UTC()
	return feedback.ResponseLabels{ID: id, Label: bag.Violation, Raters: 1, Labels: []feedback.RaterLabel{
		{Rater: "ann", Labels: feedback.Labels{Whole: bag.Violation}, Time: &at, Received: at, Sequence: 7},
	}}, f.record("labels of %s", id)
}

func (f *fakeFleet) Stats(context.Context) (feedback.Stats, error) {
	return feedback.Stats{Bags: 12, Violations: 5, HeldOut: 3, HeldOutViolations: 1, Raters: 2, Records: 17}, f.err
}

func (f *fakeFleet) Candidates(_ context.Context, n int) ([]feedback.Candidate, error) {
	all := []feedback.Candidate{
		{ID: "a", Response: "Well. Perhaps.", Model: "v7", Violation: 0.4, Threshold: 0.41, Reason: feedback.ReasonUncertain, Score: 1, Uncertainty: 0.97, Disagreement: new(0.25)},
		{ID: "b", Messages: []bag.Message{{Role: "assistant", Content: "Hm."}}, Model: "v7", Violation: 0.3, Threshold: 0.41, Reason: feedback.ReasonRandom, Score: 0.2, Uncertainty: 0.5},
	}
	return all[:min(n, len(all))], f.record("candidates %d", n)
}

func (f *fakeFleet) Current(context.Context) (retrain.Current, error) { return f.current, f.err }

func (f *fakeFleet) Model(_ context.Context, version string) (retrain.Model, error) {
	i := slices.IndexFunc(f.records, func(m retrain.Model) bool { return m.Version == version })
	if i < 0 {
		return retrain.Model{}, fmt.Errorf("%w: %s", retrain.ErrNoModel, version)
	}
	return f.records[i], f.err
}

func (f *fakeFleet) Models(context.Context) ([]retrain.Model, error) { return f.records, f.err }

func (f *fakeFleet) Promote(_ context.Context, version, by, reason string) (retrain.Current, error) {
	if err := f.record("promote %s by %s: %s", version, by, reason); err != nil {
		return retrain.Current{}, err
	}
	return retrain.Current{Version: version, Since: time.Unix(1_800_000_000, 0).UTC(), By: by, Reason: reason, Previous: []string{"v6"}, Revision: 9}, nil
}

func (f *fakeFleet) Rollback(ctx context.Context, by, reason string) (retrain.Current, error) {
	return f.Promote(ctx, "back", by, reason)
}

func (f *fakeFleet) Training(context.Context) (api.Training, error) {
	return api.Training{
		Status: retrain.Status{
			Last: &retrain.Outcome{ID: "t1", Result: retrain.ResultRejected, Version: "v8", Reason: "worse", Finished: time.Unix(1_800_000_000, 0).UTC(), Through: 41},
		},
		Auto: true, Wait: "12 of 200 new bags", Next: time.Unix(1_800_000_600, 0).UTC(),
		Feedback: feedback.Stats{Bags: 12, Violations: 5}, Drift: retrain.Drift{Reference: 1000, Recent: 700, Distance: 0.1, PValue: 0.5},
		Disagreement: retrain.Disagreement{Labels: 9, Against: 2},
	}, f.err
}

func (f *fakeFleet) Start(_ context.Context, ask retrain.TrainingRequest) (retrain.Status, error) {
	return retrain.Status{Phase: retrain.PhaseIdle, Requested: &ask}, f.record("train by %s: %s (%v)", ask.By, ask.Reason, ask.Refreeze)
}

func (f *fakeFleet) Stop(_ context.Context, id string, by retrain.Cancellation) (retrain.Status, error) {
	return retrain.Status{Phase: retrain.PhaseTraining, ID: "t2", Canceled: &by}, f.record("stop %q by %s: %s", id, by.By, by.Reason)
}

func (f *fakeFleet) install(p *api.Parts) {
	p.Feedback, p.FeedbackView, p.Registry, p.Promotions, p.Trainer = f, f, f, f, f
}

func withFleet(t *testing.T, options ...option) (*fakeFleet, *service) {
	t.Helper()
	f := &fakeFleet{current: retrain.Current{Version: "v7"}, records: []retrain.Model{
		{Version: "v8", State: retrain.StateRejected, Parent: "v7", Created: time.Unix(1_800_000_100, 0), Threshold: 0.6, By: "gate", Reason: "worse on the hold-out"},
		{
			Version: "v7", State: retrain.StatePromoted, Parent: "v6", Created: time.Unix(1_800_000_000, 0), Method: "gpu", Threshold: 0.41,
			Labels: []string{"violation", "compliant"}, By: "ops", Reason: "better",
			Data:  &retrain.Data{Training: "t0", Trigger: retrain.TriggerBags, Reason: "200 new bags", Bags: 200, Violations: 80, New: 200, HeldOut: 40, Raters: 3, Digest: "d", Settings: map[string]any{"epochs": 5}},
			Gate:  jsontext.Value(`{"holdout": {"auroc": 0.8}}`),
			Files: map[string]retrain.File{"config.json": {Size: 12, SHA256: "ab"}},
		},
	}}
	return f, start(t, scorerOf(t, &model{}, 0), append([]option{parts(f.install)}, options...)...)
}

func TestFeedback(t *testing.T) {
	const batch = `{"batch_id":"monday","items":[` +
		`{"id":"r1","label":"violation","response":"You fool."},` +
		`{"id":"r2","label":"perhaps","response":"Hm."},` +
		`{"response_id":"r3","label":"compliant"}]}`
	for name, c := range map[string]struct {
		body    []byte
		headers []string
	}{
		"JSON": {[]byte(batch), nil},
		"gzip": {gzipped(t, []byte(batch)), []string{"Content-Encoding", "gzip"}},
		"zstd": {zstandard(t, []byte(batch)), []string{"Content-Encoding", "zstd"}},
		"JSONL": {[]byte(`{"id":"r1","label":"violation","response":"You fool."}` + "\n" +
			`{"id":"r2","label":"perhaps","response":"Hm."}` + "\n\n" + `{"response_id":"r3","label":"compliant"}`), []string{"Content-Type", "application/x-ndjson"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := withFleet(t)
			got := s.do(t, "POST", "/v1/feedback", strings.NewReader(string(c.body)), c.headers...)
			require.Equal(t, 202, got.StatusCode, "%s", got.body)
			require.Contains(t, string(got.body), `"accepted":2,"duplicates":0,"rejected":[{"index":1,"id":"r2","code":"invalid","message":"`)
			require.Len(t, f.batch.Items, 2)
			require.Equal(t, "r1", f.batch.Items[0].ID)
			require.Equal(t, "r3", f.batch.Items[1].ResponseID)
			line := s.log.request(t)
			require.EqualValues(t, 3, line["items"])
			require.Equal(t, "loopback", line["by"])
		})
	}
}

func TestFeedbackWithoutRejections(t *testing.T) {
	f, s := withFleet(t, parts(func(p *api.Parts) { p.Tokens = tokens(t) }))
	got := s.do(t, "POST", "/v1/feedback", strings.NewReader(`{"items":[{"id":"r1","label":"violation","response":"a"}]}`), "Authorization", "Bearer "+adminToken)
	requireJSON(t, `{"accepted":1,"duplicates":0,"rejected":[]}`, string(got.body))
	require.Equal(t, []string{"append  by ops"}, f.calls)
}

func TestBadFeedback(t *testing.T) {
	f, s := withFleet(t, config(func(c *api.Config) {
		c.MaxBody = 1 << 10
		c.FeedbackLimits.MaxItems = 2
	}))
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"broken":           {`{"items":[`, nil, 400},
		"no items":         {`{}`, nil, 400},
		"empty list":       {`{"items":[]}`, nil, 422},
		"no lines":         {"\n", []string{"Content-Type", "application/x-ndjson"}, 422},
		"too many":         {`{"items":[{},{},{}]}`, nil, 413},
		"too many lines":   {"{}\n{}\n{}\n", []string{"Content-Type", "application/jsonl"}, 413},
		"too large":        {`{"items":[{"id":"` + strings.Repeat("a", 1<<10) + `"}]}`, nil, 413},
		"form":             {`items=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"other charset":    {"{}", []string{"Content-Type", "application/x-ndjson; charset=latin1"}, 415},
		"unknown encoding": {"{}", []string{"Content-Encoding", "br"}, 415},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.do(t, "POST", "/v1/feedback", strings.NewReader(c.body), c.headers...)
			require.Equal(t, c.status, got.StatusCode, "%s", got.body)
		})
	}
	require.Empty(t, f.calls)
	require.Equal(t, 415, s.score(t, one("a"), "Content-Type", "application/x-ndjson").StatusCode, "scoring does not accept JSONL")
}

func TestErase(t *testing.T) {
	f, s := withFleet(t)
	for path, id := range map[string]string{
		"r1": "r1", "a%2Fb": "a/b", "50%25": "50%", "a%20b": "a b", "%2525": "%25", "candidates": "candidates", "%C3%A9": "é", "step-12/x": "",
	} {
		f.calls = nil
		got := s.do(t, "DELETE", "/v1/feedback/"+path, nil)
		if id == "" {
			require.Equal(t, 404, got.StatusCode)
			continue
		}
		require.Equal(t, 200, got.StatusCode, "%s", got.body)
		requireJSON(t, `{"id":"`+id+`","records":2}`, string(got.body))
		require.Equal(t, []string{"erase " + id + " by loopback"}, f.calls)
	}
}

func TestFeedbackViews(t *testing.T) {
	f, s := withFleet(t)
	requireJSON(t, `{"bags":12,"violations":5,"held_out":3,"held_out_violations":1,"disputed":0,"raters":2,"records":17,"new":{"bags":0,"violations":0}}`,
		string(s.get(t, "/v1/feedback").body))
	got := s.get(t, "/v1/feedback/candidates")
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	require.Contains(t, string(got.body), `"candidates":[{"id":"a","response":"Well. Perhaps.","model":"v7"`)
	require.Equal(t, 200, s.get(t, "/v1/feedback/candidates?n=1000").StatusCode)
	require.Equal(t, []string{"candidates 20", "candidates 1000"}, f.calls)
	for _, n := range []string{"0", "1001", "-1", "x", "1.5"} {
		got := s.get(t, "/v1/feedback/candidates?n="+n)
		require.Equal(t, 400, got.StatusCode)
		_, field, _ := got.failure(t)
		require.Equal(t, "n", field)
	}
}

func TestModelRecords(t *testing.T) {
	_, s := withFleet(t)
	const v7 = `"id":"v7","object":"model","created":1800000000,"owned_by":"assay","name":"default","version":"v7","threshold":0.41,"labels":["violation","compliant"],` +
		`"serving":true,"current":true,"state":"promoted","parent":"v6","method":"gpu","by":"ops","reason":"better"`
	const v6 = `{"id":"v6","object":"model","created":0,"owned_by":"assay","name":"default","version":"v6","threshold":0.5,"labels":["violation","compliant"],"serving":true,"current":false}`
	const v8 = `{"id":"v8","object":"model","created":1800000100,"owned_by":"assay","name":"default","version":"v8","threshold":0.6,"labels":[],` +
		`"serving":false,"current":false,"state":"rejected","parent":"v7","by":"gate","reason":"worse on the hold-out"}`
	requireJSON(t, `{"object":"list","data":[{`+v7+`},`+v6+`,`+v8+`]}`, string(s.get(t, "/v1/models").body))

	const record = `{` + v7 + `,"data":{"training":"t0","trigger":"bags","reason":"200 new bags","through":0,"bags":200,"violations":80,"new":200,"held_out":40,"disputed":0,` +
		`"raters":3,"digest":"d","settings":{"epochs":5},"seconds":0},"gate":{"holdout":{"auroc":0.8}},"files":{"config.json":{"size":12,"sha256":"ab"}}}`
	requireJSON(t, record, string(s.get(t, "/v1/models/v7").body))
	requireJSON(t, record, string(s.get(t, "/v1/models/default").body))
	requireJSON(t, v6, string(s.get(t, "/v1/models/v6").body))
	requireJSON(t, v8, string(s.get(t, "/v1/models/v8").body))
	for _, path := range []string{"v9", "rollback", "%2e%2e"} {
		require.Equal(t, 404, s.get(t, "/v1/models/"+path).StatusCode, path)
	}
}

func TestPromote(t *testing.T) {
	f, s := withFleet(t)
	got := s.do(t, "POST", "/v1/models/v%206/promote", strings.NewReader(`{"reason":"v7 is too strict"}`))
	requireJSON(t, `{"version":"v 6","since":"2027-01-15T08:00:00Z","by":"loopback","reason":"v7 is too strict","previous":["v6"]}`, string(got.body))
	for _, body := range []string{"", " \n", `{}`, `{"reason":""}`} {
		require.Equal(t, 200, s.do(t, "POST", "/v1/models/rollback", strings.NewReader(body)).StatusCode)
	}
	require.Equal(t, 200, s.do(t, "POST", "/v1/models/rollback", nil).StatusCode)
	require.Equal(t, []string{"promote v 6 by loopback: v7 is too strict"}, f.calls[:1])
	for _, call := range f.calls[1:] {
		require.Equal(t, "promote back by loopback: ", call)
	}
	require.Len(t, f.calls, 6)
	for body, want := range map[string]string{
		`{"reason":1}`: "reason: has the wrong type", `{"why":"x"}`: "why: is unknown", `[]`: ": has the wrong type",
		`null`: ": has the wrong type", `{"reason":null}`: "reason: is null",
		`{"reason":"` + strings.Repeat("é", 1001) + `"}`: "reason: has 1001 characters", `{`: ": not valid JSON: unexpected EOF",
	} {
		got := s.do(t, "POST", "/v1/models/rollback", strings.NewReader(body))
		require.Equal(t, 400, got.StatusCode, body)
		_, field, message := got.failure(t)
		require.Contains(t, field+": "+message, want)
	}
	require.Len(t, f.calls, 6)
}

func TestLabelsOfAResponse(t *testing.T) {
	f, s := withFleet(t)
	requireJSON(t, `{"id":"r/1","label":"violation","disputed":false,"raters":1,`+
		`"labels":[{"rater":"ann","label":"violation","time":"2027-01-15T08:00:00Z","received":"2027-01-15T08:00:00Z","sequence":7}]}`,
		string(s.get(t, "/v1/feedback/r%2F1/labels").body))
	for _, rater := range []string{"ann%20%26", ""} {
		requireJSON(t, `{"id":"r/1","records":1}`, string(s.do(t, "DELETE", "/v1/feedback/r%2F1/labels?rater="+rater, nil).body))
	}
	got := s.do(t, "DELETE", "/v1/feedback/r1/labels", nil)
	require.Equal(t, 400, got.StatusCode)
	require.Equal(t, []string{"labels of r/1", `withdraw r/1 of "ann &" by loopback`, `withdraw r/1 of "" by loopback`}, f.calls)
}

func TestTraining(t *testing.T) {
	f, s := withFleet(t)
	requireJSON(t, `{"phase":"idle","last":{"id":"t1","result":"rejected","version":"v8","reason":"worse","finished":"2027-01-15T08:00:00Z","through":41},`+
		`"auto":true,"wait":"12 of 200 new bags","next":"2027-01-15T08:10:00Z",`+
		`"feedback":{"bags":12,"violations":5,"held_out":0,"held_out_violations":0,"disputed":0,"raters":0,"records":0,"new":{"bags":0,"violations":0}},`+
		`"drift":{"reference":1000,"recent":700,"distance":0.1,"p_value":0.5},"disagreement":{"labels":9,"against":2}}`,
		string(s.get(t, "/v1/training").body))
	got := s.do(t, "POST", "/v1/training", strings.NewReader(`{"reason":"new policy"}`))
	require.Equal(t, 202, got.StatusCode)
	require.Contains(t, string(got.body), `{"phase":"idle","asked":{"by":"loopback","reason":"new policy","time":"`)
	got = s.do(t, "POST", "/v1/training", strings.NewReader(`{"refreeze":true}`))
	require.Contains(t, string(got.body), `"refreeze":true`)
	require.Equal(t, 202, s.do(t, "POST", "/v1/training", nil).StatusCode)
	require.Equal(t, []string{"train by loopback: new policy (false)", "train by loopback:  (true)", "train by loopback:  (false)"}, f.calls)
	for _, body := range []string{`{"refreeze":1}`, `{"refreeze":null}`, `{"force":true}`, `{"reason":"` + strings.Repeat("a", 1001) + `"}`} {
		require.Equal(t, 400, s.do(t, "POST", "/v1/training", strings.NewReader(body)).StatusCode, body)
	}
}

func TestStopTraining(t *testing.T) {
	f, s := withFleet(t)
	got := s.do(t, "POST", "/v1/training/stop", strings.NewReader(`{"id":"t2","reason":"wrong labels"}`))
	require.Equal(t, 202, got.StatusCode)
	require.Contains(t, string(got.body), `{"phase":"training","id":"t2","canceled":{"by":"loopback","reason":"wrong labels","time":"`)
	require.Equal(t, 202, s.do(t, "POST", "/v1/training/stop", nil).StatusCode)
	require.Equal(t, []string{`stop "t2" by loopback: wrong labels`, `stop "" by loopback: `}, f.calls)
	for _, body := range []string{`{"id":1}`, `{"id":null}`, `{"force":true}`, `{"reason":"` + strings.Repeat("a", 1001) + `"}`} {
		require.Equal(t, 400, s.do(t, "POST", "/v1/training/stop", strings.NewReader(body)).StatusCode, body)
	}
	for err, status := range map[error]int{retrain.ErrNoTraining: 404, fmt.Errorf("too late: %w", retrain.ErrChanged): 409} {
		f.err = err
		got := s.do(t, "POST", "/v1/training/stop", nil)
		require.Equal(t, status, got.StatusCode)
		_, _, message := got.failure(t)
		require.Contains(t, message, err.Error())
		require.NotContains(t, message, "/v1/models")
	}
}

// Each error of the feedback loop has its status and code at every endpoint.
func TestErrorsOfTheFeedbackLoop(t *testing.T) {
	f, s := withFleet(t)
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{retrain.ErrNoModel, 404, "not_found", ""},
		{retrain.ErrNoPrevious, 409, "no_previous", ""},
		{retrain.ErrNoFiles, 409, "no_files", ""},
		{retrain.ErrDamaged, 409, "damaged", ""},
		{retrain.ErrChanged, 409, "changed", ""},
		{retrain.ErrExists, 409, "exists", ""},
		{feedback.ErrStoreFull, 503, "store_full", "60"},
		{feedback.ErrUnavailable, 503, "unavailable", "1"},
		{rewardmodel.ErrNotReady, 503, "not_ready", "1"},
		{context.DeadlineExceeded, 504, "deadline_exceeded", ""},
		{errors.New("secret detail"), 500, "internal", ""},
	} {
		f.err = fmt.Errorf("v9: %w", c.err)
		for _, path := range []string{"/v1/models/v9/promote", "/v1/models/rollback"} {
			got := s.do(t, "POST", path, nil)
			code, _, message := got.failure(t)
			require.Equal(t, c.status, got.StatusCode, "%v", c.err)
			require.Equal(t, c.code, code)
			require.Equal(t, c.retry, got.Header.Get("Retry-After"))
			require.NotContains(t, message, "secret")
		}
		if c.status == 404 || c.status == 409 {
			continue
		}
		const items = `{"items":[{"id":"r1","label":"violation","response":"a"}]}`
		for route, body := range map[string]string{
			"POST /v1/feedback": items, "DELETE /v1/feedback/r1": "", "GET /v1/feedback": "",
			"GET /v1/feedback/r1/labels": "", "DELETE /v1/feedback/r1/labels?rater=": "", "GET /v1/feedback/candidates": "",
			"GET /v1/training": "", "POST /v1/training": "", "POST /v1/training/stop": "", "GET /v1/models": "", "GET /v1/models/v7": "",
		} {
			method, path, _ := strings.Cut(route, " ")
			require.Equal(t, c.status, s.do(t, method, path, strings.NewReader(body)).StatusCode, "%s: %v", route, c.err)
		}
	}
}

func TestFeedbackLoopIsNotEnabled(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for _, route := range []string{
		"POST /v1/feedback", "GET /v1/feedback", "GET /v1/feedback/candidates", "DELETE /v1/feedback/r1", "POST /v1/models/v7/promote",
		"GET /v1/feedback/r1/labels", "DELETE /v1/feedback/r1/labels?rater=",
		"POST /v1/models/rollback", "GET /v1/training", "POST /v1/training", "POST /v1/training/stop", "GET /v1/events",
	} {
		method, path, _ := strings.Cut(route, " ")
		got := s.do(t, method, path, nil)
		require.Equal(t, 501, got.StatusCode, route)
		code, _, message := got.failure(t)
		require.Equal(t, "not_enabled", code)
		require.Contains(t, message, "--nats off")
	}
	require.Equal(t, 405, s.get(t, "/v1/feedback/r1").StatusCode)
}
