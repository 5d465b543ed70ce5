package consoletest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// serveAndKeep starts a service that keeps texts and does not train.
func serveAndKeep(t *testing.T, flags ...string) *processtest.Process {
	t.Helper()
	chromium(t)
	return processtest.Serve(t, shippedModel, t.TempDir(), append([]string{"--train-auto=false", "--keep-scored", "1h"}, flags...)...)
}

// item is an element of a request.
type item struct {
	ID       string         `json:"id"`
	Prompt   string         `json:"prompt,omitzero"`
	Response string         `json:"response"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// scoreItems scores responses in one request, and returns their rewards.
func scoreItems(t *testing.T, p *processtest.Process, items ...item) (rewards []float64) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"responses": items})
	require.NoError(t, err)
	for _, r := range processtest.Post(t, p.Ready.HTTP, string(body)).Results {
		rewards = append(rewards, r.Reward)
	}
	return rewards
}

func TestLive(t *testing.T) {
	p := serveAndKeep(t)
	scoreItems(t, p, item{ID: "before", Prompt: "May I ask?", Response: advice})
	b := browse(t, p)
	b.open("live")
	b.see("tbody th button", "before")
	const hostile = "<img src=x onerror=\"document.title='owned'\"> All is \u202ewell. "
	scoreItems(t, p, item{ID: "fine", Response: "Drink some water."}, item{ID: "hostile", Response: hostile + insult})
	_, js := p.JetStream(t)
	processtest.Publish(t, js, "job", "streamed", `{"id":"streamed","response":"The train leaves at noon.","metadata":{"step":7}}`)
	b.see("tbody tr", "nats assay.v1.responses")
	b.see("tbody tr", "http /v1/score")
	require.Equal(t, []string{"streamed", "hostile", "fine", "before"}, evaluate[[]string](b, `[...document.querySelectorAll('tbody th button')].map((e) => e.innerText)`), "the newest first")
	b.see("#view .facts", "2 (50.0 %)")
	b.see("#view", "4 responses held, of 4 that the service has scored")
	b.see("figcaption", "of 4 rewards are below 0.5")
	b.see("#view .facts", "responses/s") // of /metrics

	b.press("hostile")
	b.see("dialog[open] h2", "✕ violation")
	require.Equal(t, hostile+insult, evaluate[string](b, `document.querySelector('dialog[open] .text').textContent`))
	require.Equal(t, insult, evaluate[string](b, `document.querySelector('dialog[open] .witness').textContent`))
	b.requireAccessible("a response")
	b.keys(kb.Escape)
	b.await(`!document.querySelector('dialog[open]') && document.activeElement.innerText === 'hostile'`)
	require.Equal(t, "Live · assay", evaluate[string](b, `document.title`))

	b.tabTo("#pause")
	b.keys(" ")
	b.see("#pause", "Continue")
	scoreItems(t, p, item{ID: "late", Response: insult})
	b.await(`fetch('v1/scored', { headers: { Accept: 'application/json' } }).then((r) => r.json()).then((l) => l.responses.length === 5)`)
	require.NotContains(t, b.text("#view"), "late")
	b.click("#pause")
	b.see("tbody th button", "late")

	b.click("#only-violations")
	b.await(`document.querySelectorAll('tbody th button').length === 3`)
	b.click("#only-violations")
	b.await(`document.querySelectorAll('tbody th button').length === 5`)
	b.await(`document.querySelectorAll('.curve svg[role=img] .line, .curve svg[role=img] .point').length >= 4`)
	b.requireAccessibleInAll("live")
	b.screenshot("live")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.Ready.HTTP+"/v1/feedback/hostile", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	b.open("try")
	b.open("live")
	b.await(`document.querySelectorAll('tbody th button').length === 4`)
	require.NotContains(t, b.text("#view"), "hostile", "erased responses are not shown")
}

// requireAccessibleInAll runs axe-core on the page in light and dark and at the width of a phone, which it must fit.
func (b *tab) requireAccessibleInAll(where string) {
	b.t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		b.emulate(scheme, 1100)
		b.requireAccessible(where + ", " + scheme)
	}
	b.emulate("light", 360)
	require.LessOrEqual(b.t, evaluate[int](b, `document.documentElement.scrollWidth`), 360, "width of %s", where)
	b.requireAccessible(where + ", on a phone")
	b.emulate("light", 1100)
}

// Without the setting that keeps texts, the page says so and has none.
func TestLiveWithoutTexts(t *testing.T) {
	chromium(t)
	p := processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off")
	scoreItems(t, p, item{ID: "r1", Prompt: "a secret", Response: insult}, item{ID: "r2", Prompt: "a secret", Response: advice})
	b := browse(t, p)
	b.open("live")
	b.press("r1")
	b.see("dialog[open]", "The text is not kept")
	b.keys(kb.Escape)
	b.open("groups")
	b.see("#view", "1 group of at least two responses")
	b.see("#view", "--keep-scored")
	list := evaluate[string](b, `fetch('v1/scored', { headers: { Accept: 'application/json' } }).then((r) => r.text())`)
	require.NotContains(t, list, "secret")
	require.NotContains(t, list, "idiot")
}

// The page stays responsive with as many responses as it holds.
func TestLiveWithManyResponses(t *testing.T) {
	p := serveAndKeep(t)
	b := browse(t, p)
	texts := []string{advice, "Drink some water.", insult, strings.Repeat("The train leaves at noon. ", 8)}
	sent := 0
	score := func() {
		items := make([]item, 250)
		for i := range items {
			items[i] = item{ID: fmt.Sprint("r", sent+i), Prompt: fmt.Sprint("Question ", (sent+i)/8), Response: texts[(sent+i)%len(texts)]}
		}
		scoreItems(t, p, items...)
		sent += len(items)
	}
	arriving := b.tasksDuring(func() {
		b.open("live")
		for !strings.Contains(b.text("#view"), "5,000 responses held") { // faster than what is recorded, until the page holds as many as it can
			score()
		}
		for range 10 {
			score()
		}
	})
	t.Logf("as they arrive: %v", arriving[:3])
	opening := b.tasksDuring(func() {
		b.open("try")
		b.open("live")
		b.see("#view", "5,000 responses held")
		b.see("#view .facts", "responses/s")
	})
	t.Logf("as the page opens: %v", opening[:3])
	require.Less(t, max(arriving[0].cpu, opening[0].cpu), 100*time.Millisecond, "of CPU time; 50 ms on an idle machine, but tests share its caches")
	require.LessOrEqual(t, evaluate[int](b, `document.querySelectorAll('#view *').length`), 3000, "the table is bounded")
}
