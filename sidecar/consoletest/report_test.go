package consoletest_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// command runs assay in this process and returns its standard output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := processtest.RunProgram(t, program.Assay(), strings.NewReader(""), args...)
	require.Zero(t, code, stderr)
	return stdout
}

// writeReport scores responses with two thresholds and writes a report with every section that has no training run.
func writeReport(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	const hostile = "<script>document.title='owned'</script> \u202e" // whose witness is shown only if the model is sure of it
	texts := []struct{ response, label string }{
		{advice, "compliant"}, {insult + " Save the file first.", "violation"}, {"Drink some water. " + insult, "violation"},
		{"The train leaves at noon. Please be at the platform early.", "compliant"},
		{hostile + insult, "violation"}, {strings.Repeat("A very long sentence without an end ", 60), "compliant"},
	}
	var lines bytes.Buffer
	for i := range 120 {
		text := texts[i%len(texts)]
		line, err := json.Marshal(map[string]any{"id": fmt.Sprint("r", i), "response": fmt.Sprintf("%s Number %d.", text.response, i), "label": text.label,
			"metadata": map[string]any{"step": i / 12, "source": []string{"travel", hostile}[i%2]}})
		require.NoError(t, err)
		lines.Write(append(line, '\n'))
	}
	require.NoError(t, os.WriteFile(file("responses.jsonl"), lines.Bytes(), 0o600))
	for name, model := range map[string]string{"scored.jsonl": shippedModel, "strict.jsonl": strictModel(t)} {
		require.NoError(t, os.WriteFile(file(name), []byte(command(t, "score", file("responses.jsonl"), "--model", model, "--threads", "1")), 0o600))
	}
	command(t, "report", file("scored.jsonl"), "--with", file("responses.jsonl"), "--compare", file("strict.jsonl"), "-o", file("report.html"))
	return file("report.html")
}

// A report of assay report shows what it has without a script, is accessible in light and dark, fits a phone, and prints on pages.
func TestReport(t *testing.T) {
	chromium(t)
	path := writeReport(t)
	b := openTab(t, (&url.URL{Scheme: "file", Path: path}).String())
	for _, section := range []string{"Rewards", "Over the training of the policy", "By source", "Against labels", "Compared with other scores", "Repeated witnesses", "Lowest rewards"} {
		b.see("h2", section)
	}
	require.Equal(t, "scored.jsonl", evaluate[string](b, `document.title`))
	require.Zero(t, evaluate[int](b, `document.scripts.length + performance.getEntriesByType('resource').length`))
	require.Contains(t, evaluate[string](b, `document.body.textContent`), "<script>document.title='owned'</script>")
	require.GreaterOrEqual(t, evaluate[int](b, `document.querySelectorAll('svg[role=img]').length`), 3)
	b.emulate("light", 1100)
	b.requireAccessibleInAll("report")

	b.emulate("light", 794) // A4 at 96 pixels per inch
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		return err
	}))
	require.LessOrEqual(t, evaluate[int](b, `document.documentElement.scrollWidth`), 794, "nothing is cut off")
	var pdf []byte
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		printed, err := cdp.Call(ctx, target, page.PrintToPDF, page.PrintToPDFParams{})
		pdf = printed.Data
		return err
	}))
	require.True(t, bytes.HasPrefix(pdf, []byte("%PDF-")))
	require.GreaterOrEqual(t, bytes.Count(pdf, []byte("/Type /Page\n")), 2)
}
