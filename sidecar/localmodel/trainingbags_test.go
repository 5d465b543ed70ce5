package localmodel

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
)

// TestReadBagsCanceled ends a training run while it segments and tokenizes its
// labels: the error is that of the context, not a fault of the file.
func TestReadBagsCanceled(t *testing.T) {
	tok, err := tokenizer.Load("../../models/default")
	require.NoError(t, err)
	for kind, text := range map[string]string{
		"spaces and titles": "It is the end." + strings.Repeat(" ", 1<<17) + strings.Repeat("mr. ", 1<<15),
		"one word":          strings.Repeat("supercalifragilistic", 1<<14),
	} {
		file := filepath.Join(t.TempDir(), "bags.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(`{"id":"a","label":"violation","response":"`+text+`"}`+"\n"+
			`{"id":"b","label":"compliant","response":"Fine."}`+"\n"), 0o600))
		_, _, err = ReadBags(t.Context(), []string{file}, tok, BagOptions{MaxLength: 128}, zerolog.Nop())
		require.NoError(t, err, kind)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = ReadBags(ctx, []string{file}, tok, BagOptions{MaxLength: 128}, zerolog.Nop())
		require.ErrorIs(t, err, context.Canceled, kind)
		require.Equal(t, cli.ExitFailed, cli.ExitCode(err), kind)
	}
}

func TestReadBagsWithComparisons(t *testing.T) {
	tok, err := tokenizer.Load("../../models/default")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "bags.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"id":"1","label":"violation","response":"You fool."}
{"id":"2","label":"compliant","response":"Fine."}
{"id":"3","label":"violation","response":"No.","comparison":"pair"}
{"id":"4","label":"compliant","response":"No, sorry.","comparison":"pair"}
{"id":"5","label":"violation","response":"Fine.","comparison":"alone"}
`), 0o600))
	var log strings.Builder
	data, _, err := ReadBags(t.Context(), []string{file}, tok, BagOptions{MaxLength: 128}, zerolog.New(&log))
	require.NoError(t, err)
	require.Len(t, data[0].Bags, 2)
	require.Len(t, data[0].Comparisons, 1)
	require.Len(t, data[0].Comparisons[0], 2)
	require.NotContains(t, log.String(), "same text") // the label of a comparison contradicts none
	require.Contains(t, log.String(), `"comparisons":["alone"]`)
}

// A blank instance is not scored, so it is no instance of training either.
func TestReadBagsWithoutBlanks(t *testing.T) {
	tok, err := tokenizer.Load("../../models/default")
	require.NoError(t, err)
	b := bag.Bag{ID: "a", Label: bag.Violation, Instances: []string{" ", "Fine.", "", "You fool."}, Witness: new(3)}
	data, _, err := TokenizeAspects(t.Context(), []bag.Bag{b, {ID: "b", Label: bag.Compliant, Instances: []string{"\n"}}}, tok, BagOptions{MaxLength: 128})
	require.NoError(t, err)
	require.Len(t, data[0].Bags, 1)
	require.Len(t, data[0].Bags[0].Instances, 2)
	require.Equal(t, []bool{false, true}, data[0].Bags[0].Gold)
}

// A short response of several utterances is one instance more, with the gold label of its utterances.
func TestReadBagsAsAWhole(t *testing.T) {
	tok, err := tokenizer.Load("../../models/default")
	require.NoError(t, err)
	ids := func(text string) []int32 { return tok.Frame(tok.IDs(text)) }
	for name, c := range map[string]struct {
		line string
		want []string // instances
	}{
		"short":            {`"response":" Six million? A few thousand.\n"`, []string{"Six million?", "A few thousand.", "Six million? A few thousand."}},
		"long":             {`"response":"Six million? It was a few thousand or so."`, []string{"Six million?", "It was a few thousand or so."}},
		"one utterance":    {`"response":"A few thousand."`, []string{"A few thousand."}},
		"instances":        {`"instances":["Six million?","A few."]`, []string{"Six million?", "A few."}},
		"a message":        {`"messages":[{"role":"user","content":"Go on."},{"role":"assistant","content":"Six? A few."}]`, []string{"Six?", "A few.", "Six? A few."}},
		"several messages": {`"messages":[{"role":"assistant","content":"Six?"},{"role":"user","content":"Yes."},{"role":"assistant","content":"A few."}]`, []string{"Six?", "A few."}},
		"other characters": {`"response":"é é é é? ü ü ü ü ü ü."`, []string{"é é é é?", "ü ü ü ü ü ü.", "é é é é? ü ü ü ü ü ü."}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := bag.Decode([]byte(`{"id":"a","label":"violation",` + c.line + `}`))
			require.NoError(t, err)
			b.Witness = new(0)
			data, _, err := TokenizeAspects(t.Context(), []bag.Bag{b}, tok, BagOptions{MaxLength: 128, WholeCharacters: 30})
			require.NoError(t, err)
			got := data[0].Bags[0]
			require.Len(t, got.Instances, len(c.want))
			for i, text := range c.want {
				require.Equal(t, ids(text), got.Instances[i], text)
			}
			whole := strings.Contains(c.want[len(c.want)-1], "? ")
			require.Equal(t, whole, got.ReadsWhole)
			gold := make([]bool, len(c.want))
			gold[0], gold[len(gold)-1] = true, whole || len(gold) == 1
			require.Equal(t, gold, got.Gold)
		})
	}
}
