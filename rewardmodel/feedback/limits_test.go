package feedback

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// Instances and messages are counted over the whole batch, before they are
// decoded.
func TestBatchLimitsInstances(t *testing.T) {
	one := `{"id":"a","label":"violation","instances":["a","b"]}`
	two := `{"id":"b","label":"violation","messages":[{"role":"assistant","content":"a"},{"role":"user","content":"a"}]}`
	for name, decode := range map[string]func(Limits) (Batch, error){
		"object": func(l Limits) (Batch, error) { return Decode([]byte(`{"items":[`+one+`,`+two+`]}`), l) },
		"lines":  func(l Limits) (Batch, error) { return DecodeLines([]byte(one+"\n"+two), l) },
	} {
		t.Run(name, func(t *testing.T) {
			batch, err := decode(Limits{MaxInstances: 4})
			require.NoError(t, err)
			require.Len(t, batch.Items, 2)
			_, err = decode(Limits{MaxInstances: 3})
			var input *rewardmodel.InputError
			require.ErrorAs(t, err, &input)
			require.Equal(t, rewardmodel.KindTooLarge, input.Kind)
			require.Equal(t, "items[1]", input.Field)
		})
	}
}

func TestBatchStopsAtTheLimit(t *testing.T) {
	body := []byte(`{"items":[{"id":"a","label":"violation","instances":[""` + strings.Repeat(`,""`, 4<<20) + `]}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(body, Limits{})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "more than 524288")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*len(body)))
}

func TestLongNamesAreRejected(t *testing.T) {
	long := strings.Repeat("n", rewardmodel.MaxName+1)
	for _, field := range []string{"id", "response_id", "rater"} {
		item := strings.Replace(`{"id":"a","response_id":"b","rater":"c","label":"violation","response":"x"}`,
			map[string]string{"id": `"id":"a"`, "response_id": `"response_id":"b"`, "rater": `"rater":"c"`}[field], `"`+field+`":"`+long+`"`, 1)
		batch, err := Decode([]byte(`{"items":[`+item+`]}`), Limits{})
		require.NoError(t, err)
		require.Len(t, batch.Rejected, 1)
		require.Equal(t, CodeInvalid, batch.Rejected[0].Code)
		require.Contains(t, batch.Rejected[0].Message, field+": has 513 bytes; use at most 512")
	}
	_, err := Decode([]byte(`{"batch_id":"`+long+`","items":[{}]}`), Limits{})
	require.ErrorContains(t, err, "batch_id: has 513 bytes")
}
