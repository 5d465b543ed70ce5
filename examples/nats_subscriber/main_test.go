package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/queue/queuetest"
	"assay/rewardmodel"
)

// polite is a fake model.
type polite struct{}

func (polite) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	answer := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Name: "polite", Version: "1"}}
	for _, item := range req.Responses {
		answer.Results = append(answer.Results, rewardmodel.Result{ID: item.ID, Reward: 0.9, Compliant: true})
	}
	return answer, nil
}

func TestEachResultOnce(t *testing.T) {
	q := queuetest.Start(t, polite{})
	out := filepath.Join(t.TempDir(), "rewards.jsonl")
	do := func(command, name, in string, more ...string) string {
		var said bytes.Buffer
		args := append([]string{command, "-url", q.URL(), "-run", name}, more...)
		require.NoError(t, run(t.Context(), args, strings.NewReader(in), &said))
		return said.String()
	}
	var in strings.Builder
	for i := range 40 {
		fmt.Fprintf(&in, `{"id":"r%d","response":"You are welcome."}`+"\n", i)
	}
	in.WriteString(`{"id":"bad","respnse":"misspelled field"}` + "\n")

	assert.Equal(t, "stored 41 responses\n", do("publish", "r7", in.String()))
	do("publish", "r7", in.String()) // again: duplicates
	do("publish", "r8", in.String()) // the same ids in another run
	do("collect", "r7", "", "-out", out, "-expect", "41")
	lines := read(t, out)
	require.Len(t, lines, 41)
	assert.Contains(t, lines["r3"].Result, `"reward":0.9`)
	assert.Equal(t, "1", lines["r3"].Version)
	assert.Equal(t, "invalid", lines["bad"].Reason)
	assert.Contains(t, lines["bad"].Message, "nothing to score")

	// Killed in the middle of a line, before any message is acknowledged: all
	// messages are redelivered, and none is written twice.
	js, err := jetstream.New(queuetest.Connect(t, q))
	require.NoError(t, err)
	for _, stream := range []string{"ASSAY_REWARDS", "ASSAY_DEAD"} {
		require.NoError(t, js.DeleteConsumer(t.Context(), stream, "collect-r7"))
	}
	info, err := os.Stat(out)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(out, info.Size()-9))
	said := do("collect", "r7", "", "-out", out, "-expect", "41")
	assert.Contains(t, said, "was redelivered")
	assert.Equal(t, lines, read(t, out))

	do("collect", "r8", "", "-out", out+".r8", "-expect", "41")
	assert.Len(t, read(t, out+".r8"), 41)
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{{}, {"other"}, {"collect"}, {"collect", "-run", "a.b"}} {
		require.Error(t, run(t.Context(), args, strings.NewReader(""), &bytes.Buffer{}))
	}
	q := queuetest.Start(t, polite{})
	err := run(t.Context(), []string{"publish", "-url", q.URL(), "-run", "r"}, strings.NewReader("{}\n"), &bytes.Buffer{})
	require.ErrorContains(t, err, "line 1")
}

// comparableLine is a line with comparable fields.
type comparableLine struct {
	Version, Result, Reason, Message string
}

func read(t *testing.T, path string) map[string]comparableLine {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	found := map[string]comparableLine{}
	for text := range strings.Lines(string(data)) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		require.NotContains(t, found, l.ID)
		a := comparableLine{Version: l.Version, Result: string(l.Result)}
		if l.Error != nil {
			a.Reason, a.Message = l.Error.Reason, l.Error.Message
		}
		found[l.ID] = a
	}
	return found
}
