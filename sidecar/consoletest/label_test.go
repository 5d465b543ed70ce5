package consoletest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/feedback"
	"assay/sidecar/processtest"
)

// candidates scores different responses, which become candidates for labels.
func candidates(t *testing.T, p *processtest.Process, n int) {
	t.Helper()
	items := make([]item, n)
	for i := range items {
		items[i] = item{ID: fmt.Sprint("c", i), Prompt: fmt.Sprint("Question ", i), Response: fmt.Sprintf("Answer %d says take number %d. Thank you for asking.", i, 7*i)}
	}
	scoreItems(t, p, items...)
}

// stats are the counts of the labels.
func stats(t *testing.T, p *processtest.Process) (s feedback.Stats) {
	t.Helper()
	processtest.Fetch(t, p.Ready.HTTP+"/v1/feedback", &s)
	return s
}

// fact waits until a fact of the page has a value.
func (b *tab) fact(name, value string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll('dt')].some((e) => e.innerText === %q && e.nextSibling.innerText === %q)`, name, value))
}

func TestLabelByKeyboard(t *testing.T) {
	p := serveAndKeep(t)
	candidates(t, p, 6)
	b := browse(t, p)
	b.open("label")
	b.do(visible(`#to-label`))
	b.keys("c")
	b.see("#notice", "Enter your name")
	require.Equal(t, "rater", evaluate[string](b, `document.activeElement.name`))
	b.keys("c", "v") // in the field, they are letters
	b.enter("input[name=rater]", "anna")
	b.keys(kb.Tab)
	first := b.text("#to-label")
	b.keys("v")
	b.see("tbody tr", "accepted")
	require.NotEqual(t, first, b.text("#to-label"))
	b.keys("c", "s", "c")
	b.fact("Accepted", "3")
	require.Equal(t, 3, stats(t, p).Records)

	b.keys("u")
	b.see("#announcer", "Its label compliant is withdrawn.")
	b.fact("Withdrawn", "1")
	require.Equal(t, 2, stats(t, p).Records)
	b.keys("u", "u", "u")
	b.await(fmt.Sprintf(`document.querySelector('#to-label').innerText === %q`, first))
	b.keys("u") // there is nothing before it
	b.fact("Withdrawn", "3")
	require.Zero(t, stats(t, p).Records)
	b.keys("c")
	b.fact("Accepted", "4")
	s := stats(t, p)
	require.Equal(t, []int{1, 0, 1}, []int{s.Records, s.Violations + s.HeldOutViolations, s.Raters}, "the new label counts")

	b.keys("c", "c", "c", "c", "c", "c", "c")
	b.see("#view", "No response to label")
	b.await(`document.querySelectorAll('#view [aria-label="Labels of this page"] tbody tr').length === 6`)
	b.fact("Waiting", "0")
	require.Equal(t, 6, stats(t, p).Records)
	require.Zero(t, evaluate[int](b, `localStorage.length + sessionStorage.length`))

	// Others label two of the responses.
	items := `{"items":[{"id":"c0","response_id":"c0","rater":"ben","label":"compliant"},{"id":"c1","response_id":"c1","rater":"ben","label":"violation"}]}`
	response, err := http.Post(p.Ready.HTTP+"/v1/feedback", "application/json", strings.NewReader(items))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	b.open("live") // what the page knows outlives a change to another page
	b.open("label")
	require.Equal(t, "anna", evaluate[string](b, `document.querySelector('input[name=rater]').value`))
	row := func(id, text string) {
		b.await(fmt.Sprintf(`[...document.querySelectorAll('#view tbody tr')].some((e) => e.innerText.startsWith(%q) && e.innerText.includes(%q))`, id, text))
	}
	row("c0", "1 of 1 agree")
	row("c0", "waits for the next training run")
	row("c1", "0 of 1 agree")
	row("c1", "the raters disagree")
	row("c2", "none yet")
	b.requireAccessible("labels of others")
}

func TestLabelByMouse(t *testing.T) {
	p := serveAndKeep(t)
	const hostile = "</p><script>document.title='owned'</script> \u202eWell."
	scoreItems(t, p, item{ID: "a", Prompt: "<b>Why?</b>", Response: hostile}, item{ID: "b", Prompt: "Why?", Response: insult + " Why?"})
	b := browse(t, p)
	b.open("label")
	b.do(visible(`#to-label`))
	b.enter("input[name=rater]", "ben")
	require.NotContains(t, b.text("#view .card"), "0.", "the score is shown on request only: it would bias the rater")
	if b.text("#to-label") != "" && evaluate[string](b, `document.querySelector('#to-label').textContent`) != hostile {
		b.press("Skip (s)")
	}
	require.Equal(t, hostile, evaluate[string](b, `document.querySelector('#to-label').textContent`))
	b.press("Score of the model, and why this response")
	b.see("#view .card .facts", "Threshold")
	b.requireAccessibleInAll("label")
	b.screenshot("label")
	b.press("Compliant (c)")
	b.see("tbody tr", "✓ accepted")
	b.see("tbody tr", "agrees")
	b.click("#shortcuts")
	b.keys("u")
	require.Equal(t, 1, evaluate[int](b, `document.querySelectorAll('#view [aria-label="Labels of this page"] tbody tr').length`), "shortcuts are off")
	require.Equal(t, "Label · assay", evaluate[string](b, `document.title`))
	require.Equal(t, 1, stats(t, p).Records)
}

// lossy forwards requests to a service, except while it does not.
type lossy struct {
	proxy *httputil.ReverseProxy
	mode  atomic.Int32
}

const (
	forwards      = iota
	refuses       // requests do not arrive
	losesReplies  // requests arrive, and their responses do not
	labelsAreLost = "v1/feedback"
)

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode := l.mode.Load()
	if mode != forwards && strings.HasSuffix(r.URL.Path, labelsAreLost) {
		if mode == losesReplies {
			l.proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	}
	l.proxy.ServeHTTP(w, r)
}

// 500 labels that are typed arrive exactly once, although the connection is lost on the way.
func TestLabelsSurviveALostConnection(t *testing.T) {
	p := serveAndKeep(t)
	const n = 500
	candidates(t, p, n)
	target, err := url.Parse(p.Ready.HTTP)
	require.NoError(t, err)
	proxy := &lossy{proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	b := browse(t, p)
	b.do(chromedp.Navigate(front.URL + "/#/label"))
	b.do(visible(`#to-label`))
	b.enter("input[name=rater]", "anna")
	b.keys(kb.Tab)
	labeled := 0
	label := func(count int) {
		for range count {
			b.do(visible(`#to-label`), chromedp.KeyEvent("c"))
			labeled++
		}
	}
	label(n / 4)
	proxy.mode.Store(losesReplies)
	label(n / 4)
	b.see("#view", "not sent yet")
	proxy.mode.Store(refuses)
	label(n / 4)
	proxy.mode.Store(forwards)
	label(n - labeled)
	b.fact("Waiting", "0")
	b.see("#view", "No response to label")
	b.fact("Accepted", fmt.Sprint(n))
	s := stats(t, p)
	require.Equal(t, n, s.Records)
	require.Equal(t, n, s.Bags+s.HeldOut)
}

func TestImportLabels(t *testing.T) {
	p := serveAndKeep(t)
	b := browse(t, p)
	b.open("label")
	b.fact("Raters", "0") // what is above has its size
	b.press("Argilla and Label Studio")
	files := func(name string) chromedp.Action[chromedp.Void] {
		path, err := filepath.Abs(filepath.Join("testdata", "labels", name))
		require.NoError(t, err)
		return chromedp.SetUploadFiles(`input[type=file]`, []string{path})
	}
	b.do(files("argilla.json"))
	b.see("dialog[open] h2", "Import labels of Argilla")
	b.choose(`dialog select[name="value:bad"]`, "violation")
	b.choose(`dialog select[name="value:good"]`, "compliant")
	b.requireAccessible("import")
	b.press("Import")
	b.see("[role=status]", "argilla.json: 3 labels sent, 3 accepted, 0 known already, 0 rejected.")
	s := stats(t, p)
	require.Equal(t, []int{3, 2, 1}, []int{s.Records, s.Raters, s.Disputed}, "two users of Argilla disagree on one record")

	b.do(files("labelstudio.json"))
	b.see("dialog[open] h2", "Import labels of Label Studio")
	b.press("Import") // the values have the names of the labels
	b.see("[role=status]", "labelstudio.json: 2 labels sent, 2 accepted")
	b.do(files("labelstudio.json"))
	b.see("dialog[open] h2", "Import labels of Label Studio")
	b.press("Import")
	b.see("[role=status]", "2 labels sent, 0 accepted, 2 known already")
	require.Equal(t, 5, stats(t, p).Records)

	b.do(files("README.md"))
	b.see("#notice", "README.md is not JSON")
}

// What is exported has the shape that the tools document, and comes back as the labels that were given.
func TestExportLabels(t *testing.T) {
	p := serveAndKeep(t)
	candidates(t, p, 3)
	b := browse(t, p)
	b.open("label")
	b.do(visible(`#to-label`))
	b.enter("input[name=rater]", "3fa85f64-5717-4562-b3fc-2c963f66afa6")
	b.keys(kb.Tab)
	b.keys("v")
	b.fact("Accepted", "1")
	b.fact("Raters", "0") // what is above has its size
	b.press("Argilla and Label Studio")
	dir := t.TempDir()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir})
		return err
	}))
	read := func(name string, into any) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.Eventually(t, func() bool {
			content, err := os.ReadFile(path)
			return err == nil && json.Unmarshal(content, into) == nil
		}, stepTimeout, 50*time.Millisecond)
	}
	b.press("Export for Argilla")
	var records []struct {
		ID          string
		Fields      map[string]string
		Suggestions map[string]struct {
			Value, Agent string
			Score        float64
		}
		Responses map[string][]struct {
			Value  string
			UserID string `json:"user_id"`
		}
	}
	read("assay-argilla.json", &records)
	require.Len(t, records, 3)
	require.Equal(t, "violation", records[0].Responses["label"][0].Value)
	require.Equal(t, "3fa85f64-5717-4562-b3fc-2c963f66afa6", records[0].Responses["label"][0].UserID)
	require.Empty(t, records[1].Responses)
	require.Contains(t, records[1].Fields["response"], "Thank you for asking.")
	require.Contains(t, []string{"compliant", "violation"}, records[1].Suggestions["label"].Value)
	require.Equal(t, "assay "+p.Ready.Model, records[1].Suggestions["label"].Agent)

	b.press("Export for Label Studio")
	type result struct {
		FromName string `json:"from_name"`
		ToName   string `json:"to_name"`
		Type     string
		Value    struct{ Choices []string }
	}
	var tasks []struct {
		Data        map[string]any
		Predictions []struct {
			ModelVersion string `json:"model_version"`
			Result       []result
		}
		Annotations []struct{ Result []result }
	}
	read("assay-label-studio.json", &tasks)
	require.Len(t, tasks, 3)
	want := result{FromName: "label", ToName: "response", Type: "choices"}
	want.Value.Choices = []string{"violation"}
	require.Equal(t, []result{want}, tasks[0].Annotations[0].Result)
	require.Equal(t, p.Ready.Model, tasks[1].Predictions[0].ModelVersion)

	for _, name := range []string{"assay-argilla.json", "assay-label-studio.json"} {
		b.do(chromedp.SetUploadFiles(`input[type=file]`, []string{filepath.Join(dir, name)}))
		b.do(visible(`dialog[open]`))
		b.press("Import")
		b.see("[role=status]", name+": 1 label sent")
	}
	s := stats(t, p)
	require.Equal(t, 2, s.Records, "the rater of Argilla has a prefix, that of the console is the one of the page")
	require.Equal(t, 1, s.Violations+s.HeldOutViolations)
}
