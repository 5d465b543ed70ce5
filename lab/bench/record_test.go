package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func made(server, protocol string, repetition int, seconds float64) Record {
	return Record{
		Key:  Key{Model: "m", Server: server, Protocol: protocol, Case: "1 x 8", Work: "w", Threads: 2, Repetition: repetition},
		Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Processor: "Fast 9000", Cores: 2,
		Requests: 100, Responses: 100, Tokens: 1000, GFLOP: 20, Seconds: seconds, P50: 5, P99: 9, CPU: 2 * seconds, OtherCPU: seconds / 2, Peak: 1.5e9,
	}
}

func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	records, err := OpenRecords(path)
	require.NoError(t, err)
	a, failed := made("a", "x", 1, 10), made("b", "x", 1, 10)
	failed.Failed = 1
	require.NoError(t, records.Add(a))
	require.NoError(t, records.Add(failed))

	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"model":"cut o`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	records, err = OpenRecords(path)
	require.NoError(t, err)
	require.Len(t, records.All(), 2)
	require.Equal(t, a, records.All()[0])
	require.True(t, records.Has(a.Key))
	require.False(t, records.Has(failed.Key), "it is measured again")
	require.NoError(t, records.Add(failed))
	records, err = OpenRecords(path)
	require.NoError(t, err)
	require.Len(t, records.All(), 3)

	require.NoError(t, os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600))
	_, err = OpenRecords(path)
	require.ErrorContains(t, err, "line 2")
}

func TestWriteTable(t *testing.T) {
	rho := 0.9991
	assay := made("assay-bf16", "/v1/score", 1, 4)
	assay.ModelCPU, assay.Agreement, assay.Versions = 7.6, &rho, map[string]string{"assay": "v1"}
	bulk := made("a", "/get_reward", 1, 5)
	bulk.Case = "bulk 512"
	absent := made("assay-int8", "", 1, 0)
	absent.Case, absent.Error, absent.Responses = "start", "exit status 2\nunknown precision", 0
	records := []Record{
		made("a", "/get_reward", 1, 10), bulk, assay,
		made("a", "/get_reward", 2, 20), made("a", "/get_reward", 3, 50), made("a", "/get_reward", 3, 40), absent,
	}
	var out strings.Builder
	require.NoError(t, WriteTable(&out, records))
	const head = `| server | protocol | runs | responses/s | tokens/s | GFLOP/s | p50 ms | p99 ms | CPU s per response | peak RSS, GB | outside the model | ranks | others' cores |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`
	require.Equal(t, `### m, 1 x 8

Fast 9000, 2 of 2 cores, 2026-11-21.

`+head+`| a | /get_reward | 3 | 5.0 | 50 | 1.0 | 5.0 | 9.0 | 0.4000 | 1.50 |  |  | 0.50 |
| assay-bf16 | /v1/score | 1 | 25.0 | 250 | 5.0 | 5.0 | 9.0 | 0.0800 | 1.50 | 5.0 % | 0.9991 | 0.50 |

### m, bulk 512

Fast 9000, 2 of 2 cores, 2026-11-21.

`+head+`| a | /get_reward | 1 | 20.0 | 200 | 4.0 | 5.0 | 9.0 | 0.1000 | 1.50 |  |  | 0.50 |

Failed:

* m: assay-int8, start, 0 requests failed: exit status 2
  unknown precision

Versions: assay v1.
`, out.String())
}
