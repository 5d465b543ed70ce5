package consoletest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// The page follows a training run of a model so small that the run takes seconds,
// from its request by keyboard to its promotion. The number of epochs is such that the page can show it while it lasts.
func TestTrainingRun(t *testing.T) {
	chromium(t)
	p := processtest.Serve(t, processtest.TinyBackbone(t), t.TempDir(), "--allow-untrained", "--train-auto=false",
		"--holdout-share", "0.3", "--train-min-bags", "120", "--train-min-each", "20", "--train-cooldown", "1s",
		"--train-drift", "0", "--train-disagreement", "0", "--train-epochs", "30", "--train-lr", "1e-3", "--train-threads", "1")
	const bags = 480
	sendLabels(t, p, bags)
	b := browse(t, p)
	b.open("training")
	b.await(`[...document.querySelectorAll('#training-state dt')].some((e) => e.innerText === 'Responses to train on' && parseInt(e.nextSibling.innerText) > ` + strconv.Itoa(bags/2) + `)`)
	b.tabTo(`#view .actions button`)
	b.keys(kb.Enter)
	b.do(visible(`dialog[open] input`), insert("a first version"))
	b.keys(kb.Enter)
	b.see("#training-state", "Training the candidate")
	b.see("#training-state", "Time left, without the gate")
	b.see("#training-state", "loopback")
	b.requireAccessible("a training run")
	b.screenshot("training-run")
	b.see("#training-state", "Previous run: ✓ promoted")
	b.see("#training-events", "model.promoted")
	b.see("#training-events", "training.progress")

	version := evaluate[string](b, `document.querySelector('#training-state a').innerText`)
	b.press(version)
	b.see("#record h2", version)
	b.see("#record", "✓ Passed.")
	b.see("#record", "a first version")
	b.do(visible(`#record .curve`))
	b.screenshot("model-record")
}

// A run is stopped by mouse, after a confirmation.
func TestStopTrainingRun(t *testing.T) {
	chromium(t)
	p := processtest.Serve(t, processtest.TinyBackbone(t), t.TempDir(), "--allow-untrained", "--train-auto=false",
		"--holdout-share", "0.3", "--train-min-bags", "120", "--train-min-each", "20", "--train-epochs", "200", "--train-threads", "1")
	b := browse(t, p)
	b.open("training")
	b.await(`document.querySelectorAll('#view .actions button')[1]?.disabled === true`)
	request := func() {
		b.press("Start a training run…")
		b.do(visible(`dialog[open] input`))
		b.press("Start")
	}
	request()
	b.press("Withdraw the request…")
	b.press("Withdraw")
	b.see("#announcer", "The request is withdrawn.")
	b.await(`document.querySelectorAll('#view .actions button')[1]?.disabled === true`)

	sendLabels(t, p, 480)
	request()
	b.see("#training-state", "Training the candidate")
	b.press("Stop the training run…")
	b.do(visible(`dialog[open] input`))
	b.requireAccessible("stop a training run")
	b.do(insert("wrong labels"))
	b.press("Stop")
	b.see("#training-state", "Previous run: ■ canceled")
	b.see("#training-state", "wrong labels")
	b.see("#training-events", "training.canceled")
	require.Equal(t, p.Ready.Model, processtest.ServedBy(t, p.Ready.HTTP))
}

// sendLabels labels responses of made-up words.
func sendLabels(t *testing.T, p *processtest.Process, n int) {
	t.Helper()
	type item struct {
		ID       string `json:"response_id"`
		Response string `json:"response"`
		Label    string `json:"label"`
		Rater    string `json:"rater"`
	}
	var items []item
	for _, b := range processtest.WordBags("label-", n, 1) {
		items = append(items, item{b.ID, b.Response, string(b.Label), "ann"})
	}
	body, err := json.Marshal(map[string]any{"items": items})
	require.NoError(t, err)
	response, err := http.Post(p.Ready.HTTP+"/v1/feedback", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	response.Body.Close()
	require.Less(t, response.StatusCode, 300)
}
