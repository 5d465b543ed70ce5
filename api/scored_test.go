package api_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
	"assay/rewardmodel/recent"
)

// recorded is a service whose scorer records what it scores.
func recorded(t *testing.T, cfg recent.Config, options ...option) *service {
	t.Helper()
	ring := recent.New(cfg)
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "default", Version: "v7", Observer: ring}, &model{}, runes{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	return start(t, scorer, append(options, parts(func(p *api.Parts) { p.Scored = ring }))...)
}

// scoredList is the body of GET /v1/scored.
type scoredList struct {
	Responses       []recent.Response
	Scored, Skipped int
	Texts           bool
}

func (s *service) scored(t *testing.T, query string) (list scoredList) {
	t.Helper()
	got := s.get(t, "/v1/scored"+query, "Accept", "application/json")
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	require.NoError(t, json.Unmarshal(got.body, &list))
	return list
}

func (l scoredList) ids() (ids []string) {
	for _, r := range l.Responses {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestScoredResponsesAsAList(t *testing.T) {
	s := recorded(t, recent.Config{Texts: time.Hour})
	requireJSON(t, `{"responses":[],"scored":0,"skipped":0,"texts":true}`, string(s.get(t, "/v1/scored", "Accept", "application/json").body))

	require.Equal(t, 200, s.score(t, `{"responses":[{"id":"a","prompt":"Why?","response":"Fine. Not # fine.","metadata":{"step":3}},
		{"id":"b","prompt":"Why?","response":"Fine."}],"options":{"reward":"logit","instances":false}}`).StatusCode)
	require.Equal(t, 200, s.do(t, "POST", "/slime", strings.NewReader(`{"prompt":"p","response":"#"}`)).StatusCode)
	list := s.scored(t, "")
	require.Len(t, list.Responses, 3)
	require.Equal(t, 3, list.Scored)
	a, b, c := list.Responses[0], list.Responses[1], list.Responses[2]
	require.Equal(t, []string{"a", "b"}, []string{a.ID, b.ID})
	require.Equal(t, a.Group, b.Group)
	require.Equal(t, 3.0, *a.Step)
	require.Equal(t, 2, a.Utterances, "although the result does not list them")
	require.Equal(t, "Not # fine.", a.Witness)
	require.Equal(t, rewardmodel.RewardLogit, a.Scale)
	require.Less(t, a.Reward, 0.0)
	require.InDelta(t, 0.05, a.Compliance, 0.05)
	require.True(t, b.Compliant)
	require.Equal(t, "http /v1/score", a.Source)
	require.Equal(t, "http /slime", c.Source)

	require.Equal(t, []string{"b", c.ID}, s.scored(t, "?n=2").ids())
	after := strconv.FormatUint(b.Sequence, 10)
	require.Equal(t, []string{c.ID}, s.scored(t, "?after="+after).ids())
	require.Empty(t, s.scored(t, "?after="+strconv.FormatUint(c.Sequence, 10)).ids())
}

// What the service scores for itself, such as for the readiness of a model, is not shown.
func TestScoredResponsesAreThoseOfClients(t *testing.T) {
	s := recorded(t, recent.Config{})
	require.Equal(t, 200, s.get(t, "/v2/models/default/versions/v7/ready").StatusCode)
	require.Equal(t, scoredList{Responses: []recent.Response{}}, s.scored(t, ""))
	require.Equal(t, 200, s.score(t, `{"responses":[{"response":"secret"}]}`).StatusCode)
	got := s.get(t, "/v1/scored", "Accept", "application/json")
	require.NotContains(t, string(got.body), "secret", "texts are off")
}

func TestScoredResponsesAreFollowed(t *testing.T) {
	s := recorded(t, recent.Config{})
	require.Equal(t, 200, s.score(t, `{"responses":[{"id":"a","response":"x"},{"id":"b","response":"x"}]}`).StatusCode)
	f := follow(t, s.client, "http://"+s.addr+"/v1/scored")
	next := func() (list scoredList) {
		e := f.event(t)
		require.Equal(t, "scored", e["event"])
		require.NoError(t, json.Unmarshal([]byte(e["data"]), &list))
		require.Equal(t, strconv.FormatUint(list.Responses[len(list.Responses)-1].Sequence, 10), e["id"])
		return list
	}
	require.Equal(t, []string{"a", "b"}, next().ids(), "one message for both")
	require.Equal(t, 200, s.score(t, `{"responses":[{"id":"c","response":"x"}]}`).StatusCode)
	require.Equal(t, []string{"c"}, next().ids())
	require.NoError(t, f.response.Body.Close())

	require.Equal(t, 200, s.score(t, `{"responses":[{"id":"d","response":"x"}]}`).StatusCode)
	address := "http://" + s.addr + "/v1/scored"
	last := f.lastID
	f = follow(t, s.client, address+"?n=0", "Last-Event-ID", last)
	require.Equal(t, []string{"d"}, next().ids(), "nothing twice and nothing lost")
	f = follow(t, s.client, address+"?n=3")
	require.Equal(t, []string{"b", "c", "d"}, next().ids())
	f = follow(t, s.client, address+"?n=0")
	require.Equal(t, 200, s.score(t, `{"responses":[{"id":"e","response":"x"}]}`).StatusCode)
	require.Equal(t, []string{"e"}, next().ids())
	s.Drain()
	_, more := f.next()
	require.False(t, more)
}

// A loaded service sends few messages, however many responses it scores.
func TestScoredResponsesAreSentInBatches(t *testing.T) {
	s := recorded(t, recent.Config{})
	f := follow(t, s.client, "http://"+s.addr+"/v1/scored")
	stop, began := make(chan struct{}), time.Now()
	done := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
				s.score(t, `{"responses":[{"response":"x"}]}`)
				n++
			}
		}
	}()
	for range 4 {
		f.event(t)
	}
	require.GreaterOrEqual(t, time.Since(began), 700*time.Millisecond, "three intervals of 250 ms")
	close(stop)
	require.Greater(t, await(t, done, "the end of the requests"), 4)
}

// A client that is behind gets what is held in messages of bounded size, without delay.
func TestScoredResponsesAreSentInPieces(t *testing.T) {
	s := recorded(t, recent.Config{Texts: time.Hour})
	text := strings.Repeat("x", 16<<10)
	item := `{"response":"` + text + `"}`
	require.Equal(t, 200, s.score(t, `{"responses":[`+strings.Repeat(item+",", 39)+item+`]}`).StatusCode)
	f := follow(t, s.client, "http://"+s.addr+"/v1/scored")
	var sizes []int
	for n := 0; n < 40; {
		var list scoredList
		require.NoError(t, json.Unmarshal([]byte(f.event(t)["data"]), &list))
		sizes = append(sizes, len(list.Responses))
		n += len(list.Responses)
	}
	require.Equal(t, []int{15, 15, 10}, sizes, "a witness of 1 KiB and 16 KiB of text each")
}

func TestBadScoredRequests(t *testing.T) {
	s := recorded(t, recent.Config{})
	for _, c := range []struct{ query, accept, field string }{
		{"?n=1001", "", "n"},
		{"?n=0", "application/json", "n"},
		{"?after=x", "", "after"},
		{"?after=-1", "application/json", "after"},
	} {
		got := s.get(t, "/v1/scored"+c.query, "Accept", c.accept)
		require.Equal(t, 400, got.StatusCode, c.query)
		_, field, _ := got.failure(t)
		require.Equal(t, c.field, field)
	}
	require.Equal(t, 501, start(t, scorerOf(t, &model{}, 0)).get(t, "/v1/scored").StatusCode)
}
