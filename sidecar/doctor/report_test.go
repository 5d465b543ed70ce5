package doctor

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var sample = []Finding{
	{"memory", OK, "enough", ""},
	{"sync", Warning, "--sync interval", "set --sync always"},
	{"listen", Error, "in use", "choose another"},
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	report, err := WriteText(&out, slices.Values(sample))
	require.NoError(t, err)
	require.Equal(t, Report{Findings: sample, Errors: 1, Warnings: 1}, report)
	require.Equal(t, `ok       memory     enough
warning  sync       --sync interval
                    fix: set --sync always
error    listen     in use
                    fix: choose another
`, out.String())
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	report, err := WriteJSON(&out, slices.Values(sample))
	require.NoError(t, err)
	require.Equal(t, Report{Findings: sample, Errors: 1, Warnings: 1}, report)
	require.JSONEq(t, `{"findings":[
		{"check":"memory","status":"ok","detail":"enough"},
		{"check":"sync","status":"warning","detail":"--sync interval","fix":"set --sync always"},
		{"check":"listen","status":"error","detail":"in use","fix":"choose another"}
	],"errors":1,"warnings":1}`, out.String())
}

// A check that hangs or fails does not prevent the others.
func TestEveryCheckRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		found := slices.Collect(Run(t.Context(), []Check{
			{"failing", time.Second, func(context.Context) []Finding { return sample[2:] }},
			{"hanging", time.Second, func(context.Context) []Finding { <-hang; return nil }},
			{"obedient", time.Second, func(ctx context.Context) []Finding {
				<-ctx.Done()
				return []Finding{{"obedient", Error, "the server does not reply", ""}}
			}},
			{"last", time.Second, func(context.Context) []Finding { return sample[:1] }},
		}))
		close(hang)
		require.Len(t, found, 4)
		require.Equal(t, sample[2], found[0])
		require.Equal(t, "hanging", found[1].Check)
		require.Equal(t, Error, found[1].Status)
		require.Equal(t, "no result after 1s", found[1].Detail)
		require.Equal(t, "the server does not reply", found[2].Detail)
		require.Equal(t, sample[0], found[3])
	})
}

func TestAnInterruptEndsTheChecks(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	found := slices.Collect(Run(ctx, []Check{
		{"first", time.Minute, func(context.Context) []Finding { return sample[:1] }},
		{"second", time.Minute, func(context.Context) []Finding { interrupt(); return sample[1:2] }},
		{"third", time.Minute, func(context.Context) []Finding { panic("runs") }},
	}))
	require.Equal(t, sample[:1], found)
}
