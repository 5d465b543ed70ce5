package fleet_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// TestFloodOfOneToken floods a service whose labels are of another token: a training run takes as many of them as the
// share permits, and none while only the flood has sent labels.
func TestFloodOfOneToken(t *testing.T) {
	const trained, held = 60, 25 // of the honest sender; of the latter, each label
	honestToken, floodToken := strings.Repeat("h", 20), strings.Repeat("f", 20)
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte(honestToken+" feedback honest\n"+floodToken+" feedback flood\n"), 0o600))
	p := serveTiny(t, 120, "--train-auto=false", "--train-epochs", "1", "--max-sender-share", "0.5", "--token-file", tokens, "--trust-loopback")
	_, js := p.JetStream(t)
	happened := followEvents(t, p)

	flood := flipped(processtest.WordBags("flood-", 600, 2))
	sendAs(t, p, floodToken, flood)
	_, stderr, code := assay(t, "", "training", "start", "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	awaitStatus(t, p, "feedback.records", strconv.Itoa(len(flood)))
	_, status := processtest.Get(t, p.Ready.HTTP+"/v1/training")
	require.Equal(t, strconv.Itoa(len(flood)), field(t, status, "feedback.over_share"))
	require.Contains(t, field(t, status, "wait"), "600 responses are omitted, because no sender may have more than 0.5 of either label: send labels with at least 2 tokens")
	require.Empty(t, happened.of(retrain.EventTrainingStarted))
	_, stderr, code = assay(t, "", "training", "stop", "--url", p.Ready.HTTP) // or a run would start with some of the labels that follow
	require.Equal(t, cli.ExitDone, code, stderr)

	honest := splitBags(t, js, processtest.WordBags("good-", 600, 1), trained, held)
	sendAs(t, p, honestToken, honest)
	awaitStatus(t, p, "feedback.records", strconv.Itoa(len(flood)+len(honest)))
	_, stderr, code = assay(t, "", "training", "start", "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	verdict := happened.wait(t, trainingTime, 1, retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed)
	require.NotEqual(t, retrain.EventTrainingFailed, verdict.Kind, happened)

	show, stderr, code := assay(t, "", "models", "show", verdict.Version, "--url", p.Ready.HTTP)
	require.Equal(t, cli.ExitDone, code, stderr)
	split := feedback.Split{Share: holdoutShare, Salt: holdoutSalt(t, js)}
	want := feedback.Stats{OverShare: len(honest) + len(flood)}
	for _, label := range []bag.Label{bag.Violation, bag.Compliant} {
		for _, heldOut := range []bool{true, false} {
			kept := 2 * min(countBags(split, honest, label, heldOut), countBags(split, flood, label, heldOut))
			want.OverShare -= kept
			switch {
			case heldOut:
				want.HeldOut += kept
			default:
				want.Bags += kept
			}
		}
	}
	require.Equal(t, strconv.Itoa(want.Bags), field(t, show, "data.bags"), "as many of the flood as of the honest sender")
	require.Equal(t, 2*trained, want.Bags)
	require.Equal(t, strconv.Itoa(want.HeldOut), field(t, show, "data.held_out"))
	require.Equal(t, strconv.Itoa(want.OverShare), field(t, show, "data.over_share"))
	_, exposition := processtest.Get(t, p.Ready.HTTP+"/metrics")
	require.Contains(t, exposition, fmt.Sprintf("\nassay_training_over_share %d\n", want.OverShare))
}

// countBags counts the bags of a side with a label.
func countBags(split feedback.Split, bags []bag.Bag, label bag.Label, heldOut bool) (n int) {
	for _, b := range bags {
		if m := (feedback.Record{Bag: b}).Mark(0); b.Label == label && split.HeldOut(m.ID, m.Group) == heldOut {
			n++
		}
	}
	return n
}

// sendAs sends bags in one batch with a token.
func sendAs(t *testing.T, p *processtest.Process, token string, bags []bag.Bag) {
	t.Helper()
	var body bytes.Buffer
	for _, b := range bags {
		body.WriteString(line(t, b) + "\n")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Ready.HTTP+"/v1/feedback", &body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var receipt feedback.Receipt
	require.NoError(t, json.Unmarshal(out, &receipt), string(out))
	require.Equal(t, len(bags), receipt.Accepted, string(out))
}

// awaitStatus waits until a field of the training status has a value.
func awaitStatus(t *testing.T, p *processtest.Process, path, value string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, body := processtest.Get(t, p.Ready.HTTP+"/v1/training")
		return field(t, body, path) == value
	}, processtest.Timeout, processtest.Timeout/1000, "%s is not %s", path, value)
}
