package fleet_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// While the disk is full, labels are rejected with a reason, no acknowledged label is lost, and scoring continues. Once
// there is space, labels are accepted again.
func TestFullDisk(t *testing.T) {
	disk := processtest.SmallDisk(t, 128)
	at, c := &endpoint{}, newClients(t)
	p := processtest.Serve(t, processtest.TinyModel(t, nil), filepath.Join(disk, "data"), eagerTrainingFlags("--train-auto=false")...)
	at.up(p.Ready.HTTP)
	rewards, labels := c.score(at), newRater(c, 1, at)
	for range 20 {
		labels.send(labels.newItems(50))
	}
	processtest.Fill(t, filepath.Join(disk, "filler"))

	var rejection reply
	var batch []labeledItem
	require.Eventually(t, func() bool { // some labels may still fit
		batch = labels.newItems(50)
		body, err := json.Marshal(map[string]any{"items": batch})
		require.NoError(t, err)
		got, _ := at.call(c.http, http.MethodPost, "/v1/feedback", string(body))
		require.NoError(t, got.err)
		if got.code == http.StatusAccepted {
			labels.acknowledge(batch, got.body, true)
			return false
		}
		rejection = got
		return true
	}, processtest.Timeout, time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, rejection.code, string(rejection.body))
	var failure struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal(rejection.body, &failure))
	require.Contains(t, []string{"unavailable", "store_full"}, failure.Error.Code)
	// The server rejects first, and then the disk monitor, whose message names the fix.
	require.Eventually(t, func() bool {
		_, ready := processtest.Get(t, p.Ready.HTTP+"/readyz")
		return strings.Contains(ready, "free space on the disk of the data directory")
	}, processtest.Timeout, 20*time.Millisecond)
	body, err := json.Marshal(map[string]any{"items": batch})
	require.NoError(t, err)
	got, _ := at.call(c.http, http.MethodPost, "/v1/feedback", string(body))
	require.Equal(t, http.StatusServiceUnavailable, got.code, string(got.body))
	require.Contains(t, string(got.body), "free space on the disk of the data directory")
	scored := rewards.answered()
	require.Eventually(t, func() bool { return rewards.answered() > scored+20 }, processtest.Timeout, 10*time.Millisecond)

	require.NoError(t, os.Remove(filepath.Join(disk, "filler")))
	labels.retry503 = true
	labels.send(batch)
	labels.retry503 = false
	require.Eventually(t, func() bool {
		status, _ := processtest.Get(t, p.Ready.HTTP+"/readyz?streams=1")
		return status == http.StatusOK
	}, processtest.Timeout, 20*time.Millisecond)
	labels.send(labels.newItems(50))
	_, js := p.JetStream(t)
	labels.requireKept(t, at, js)
	c.end()
	t.Logf("%d labels kept, %d rewards; rejected with: %s; then: %s", labels.known(), rewards.answered(), failure.Error.Message, got.body)
}
