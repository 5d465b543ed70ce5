package consoletest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

func TestTraining(t *testing.T) {
	p := serveTwoVersions(t)
	b := browse(t, p)
	b.open("training")
	b.see("#training-state", "Waits for: automatic training is off")
	b.see("#training-events", "There are no events yet")
	b.press("Start a training run…")
	b.do(visible(`dialog[open] input`), insert("after the labels of today"))
	b.click(`dialog[open] button[type=submit]`)
	b.see("#training-state", "requested a training run")
	b.see("#training-state", "after the labels of today")
	response, err := http.Post(p.Ready.HTTP+"/v1/models/"+strictVersion+"/promote", "application/json", nil)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	b.see("#training-events", "model.promoted")
}

func TestHealth(t *testing.T) {
	p := serveTwoVersions(t)
	b := browse(t, p)
	b.open("health")
	b.see("#readiness", "The service is ready.")
	b.see("#load", "Throughput")
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			response, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", chat(i))
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
		}
	}()
	b.see("#load", "responses per second")
	b.see("#load", "utterances per second")
	b.see("#load", "the model computes")
	b.see("#load", "median")
	b.screenshot("health")
	close(stop)
	<-done

	p.Signal(t)
	p.Wait(t)
	b.see("#notice", "The service cannot be reached.")
	b.requireAccessible("an outage")
}

func TestHealthWithoutNATS(t *testing.T) {
	b := browse(t, processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off"))
	b.open("health")
	b.see("#load", "The service runs without NATS.")
	b.open("training")
	b.see("#notice", "this service keeps no feedback and trains nothing")
	b.open("models")
	b.see("#record", "runs without NATS")
}

// chat returns a request to score a response that no cache has.
func chat(i int) io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"responses":[{"response":"Train %d leaves at noon. Platform %d is closed. Ask at the desk."}]}`, i, i+7))
}
