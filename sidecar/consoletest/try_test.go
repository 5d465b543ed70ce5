package consoletest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

const (
	responseField = `#try textarea[rows="6"]`
	insult        = "Only a complete imbecile would ask that."
	advice        = "Drink some water and rest for an hour. " + insult + " If it does not get better, see a doctor."
)

// scoreExample fills in the example of the page Try and scores it.
func (b *tab) scoreExample() {
	b.t.Helper()
	b.open("try")
	b.press("Fill in an example")
	b.do(script(`document.querySelector('#results').replaceChildren()`))
	b.press("Score")
	b.do(visible(`.result`))
}

func TestTryByMouse(t *testing.T) {
	p := serveTwoVersions(t)
	b := browse(t, p)
	b.do(visible(`#try`))
	require.Equal(t, "Try", b.text("nav a[aria-current]"))
	b.click(responseField)
	b.do(insert(advice))
	b.press("Score")
	b.see(".result h3", "✕ violation")
	require.Equal(t, insult, b.text(".text .witness"))
	require.Equal(t, 3, evaluate[int](b, `document.querySelectorAll('.text .utterance').length`))
	b.see("#announcer, .result", "Violation")
	b.hover(".text .utterance:nth-of-type(1)")
	b.see(".detail", "Utterance 1 of 3: violation")
	b.hover(".text .witness")
	b.see(".detail", "Utterance 2 of 3, the witness: violation")

	want := processtest.Post(t, p.Ready.HTTP, `{"responses":[{"response":"`+advice+`"}]}`).Results[0]
	require.Contains(t, b.text(".result .facts"), decimals(want.Reward))

	b.press("Add a second response")
	b.enter(`#try .field:nth-child(2) textarea[rows="6"]`, "Drink some water and see a doctor.")
	b.choose(`#try .columns:nth-of-type(2) .field:nth-child(2) select`, strictVersion)
	b.press("Score")
	b.await(`document.querySelectorAll('.result').length === 4`)
	b.see(".result h3", "Response 2, second version")
	require.Contains(t, b.text("#results"), strictVersion)
	b.screenshot("try-side-by-side")
}

func TestTryByKeyboard(t *testing.T) {
	b := browse(t, processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off"))
	b.do(visible(`#try`))
	b.keys(kb.Tab)
	require.Equal(t, "Skip to content", evaluate[string](b, `document.activeElement.innerText`))
	b.keys(kb.Enter)
	require.Equal(t, "main", evaluate[string](b, `document.activeElement.id`))
	b.tabTo(responseField)
	b.do(insert(advice), chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.do(visible(`.result`))
	b.tabTo(`.text .utterance`)
	b.see(".detail", "Utterance 1 of 3")
	b.keys(kb.ArrowRight)
	b.see(".detail", "Utterance 2 of 3, the witness")
	b.keys(kb.End)
	b.see(".detail", "Utterance 3 of 3")
	b.keys(kb.Home)
	b.see(".detail", "Utterance 1 of 3")
}

// Texts are shown as text, and the witness is highlighted where it is.
func TestHostileText(t *testing.T) {
	p := processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off")
	b := browse(t, p)
	b.do(visible(`#try`))
	for name, before := range map[string]string{
		"script":             "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> Rest for an hour. ",
		"right to left":      "\u202eThis part is reversed. \u202c Rest for an hour. ",
		"unclosed override":  "\u202eRest for an hour. ",
		"zero width":         "Re\u200bst f\u200dor an hour.\ufeff ",
		"emoji":              "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 1️⃣ rest for an hour. ",
		"combining":          "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞ Rest for an hour. ",
		"markup of the page": "</div></mark><h1>Console</h1> Rest for an hour. ",
	} {
		b.sub(name, func(t *testing.T) {
			b.enter(responseField, before+insult)
			b.do(script(`document.querySelector('#results').replaceChildren()`))
			b.press("Score")
			b.do(visible(`.result .text`))
			require.Equal(t, before+insult, evaluate[string](b, `document.querySelector('.result .text').textContent`))
			body, err := json.Marshal(map[string]any{"responses": []any{map[string]any{"response": before + insult}}, "options": map[string]any{"offset_unit": "utf16"}})
			require.NoError(t, err)
			want := processtest.Post(t, p.Ready.HTTP, string(body)).Results[0].Witness
			require.Equal(t, want.Text, evaluate[string](b, `document.querySelector('.text .witness').textContent`))
			require.Equal(t, want.Start, evaluate[int](b, `(() => { const r = document.createRange(); const text = document.querySelector('.result .text');
				r.setStart(text, 0); r.setEndBefore(document.querySelector('.text .witness')); return r.toString().length; })()`))
			require.Equal(t, "Try · assay", evaluate[string](b, `document.title`))
			require.Zero(t, evaluate[int](b, `document.querySelectorAll('#results script, #results img, #results h1').length`))
		})
	}
}

// A line of a megabyte is scored and shown.
func TestLongLine(t *testing.T) {
	b := browse(t, processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off"))
	b.do(visible(`#try`))
	b.do(script(`(() => { const area = document.querySelector('#try textarea[rows="6"]'); area.value = 'All is well. '.repeat(80000); area.dispatchEvent(new Event('input')); })()`))
	b.press("Score")
	b.do(visible(`.result`))
	require.Equal(t, 13*80000, evaluate[int](b, `document.querySelector('.result .text').textContent.length`))
	b.see(".result", "more utterances than the service scores")
}

func TestJSONLFile(t *testing.T) {
	p := serveTwoVersions(t)
	b := browse(t, p)
	name := filepath.Join(t.TempDir(), "responses.jsonl")
	var lines strings.Builder
	for i := range 120 {
		text := "The train leaves at noon."
		if i%10 == 3 {
			text = advice
		}
		lines.WriteString(`{"id":"r` + string(rune('a'+i%26)) + `","prompt":"A question","response":"` + text + `","reward":1}` + "\n")
	}
	lines.WriteString(`{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"` + insult + `"}]}` + "\n")
	require.NoError(t, os.WriteFile(name, []byte(lines.String()), 0o600))
	b.do(visible(`#try`), chromedp.SetUploadFiles(chromedp.CSS(`#jsonl`), []string{name}))
	b.see("#results", "13 of 121 (11 %) are violations")
	b.see("#results caption", "121 responses, page 1 of 3")
	b.choose(`#results select`, "violations")
	b.see("#results caption", "13 responses, page 1 of 1")
	b.click("#results tbody tr:last-child button")
	b.see("#opened .result", "assistant")
	require.Equal(t, insult, b.text("#opened .text .witness"))
	b.requireAccessible("list")

	b.do(script(`(() => { const data = new DataTransfer(); data.items.add(new File(['{"response":"Dropped."}\n"And a string."'], 'dropped.jsonl'));
		document.querySelector('#try').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); })()`))
	b.see("#results", "2 responses of dropped.jsonl")

	invalid := filepath.Join(t.TempDir(), "invalid.jsonl")
	require.NoError(t, os.WriteFile(invalid, []byte(strings.Repeat("\"fine\"\n", 70)+`{"response":"fine","id":"`+strings.Repeat("x", 600)+`"}`), 0o600))
	b.do(chromedp.SetUploadFiles(chromedp.CSS(`#jsonl`), []string{invalid}))
	b.see("#notice", "response 71")

	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	require.NoError(t, os.WriteFile(broken, []byte("{\"response\":\"fine\"}\n{\"prompt\":\"no response\"}\n"), 0o600))
	b.do(chromedp.SetUploadFiles(chromedp.CSS(`#jsonl`), []string{broken}))
	b.see("#notice", "broken.jsonl, line 2: it needs exactly one of response, messages and instances")
}

// Of a model with several rules, each aspect has its own tint and witness.
func TestAspects(t *testing.T) {
	chromium(t)
	dir := t.TempDir()
	bags, model := filepath.Join(dir, "bags.jsonl"), filepath.Join(dir, "two")
	var lines strings.Builder
	for i, b := range processtest.WordBags("start", 40, 5) {
		line, err := json.Marshal(map[string]any{"id": b.ID, "response": b.Response, "labels": map[string]any{"toxicity": b.Label, "refusal": []string{"compliant", "violation"}[i/2%2]}})
		require.NoError(t, err)
		lines.Write(append(line, '\n'))
	}
	require.NoError(t, os.WriteFile(bags, []byte(lines.String()), 0o600))
	_, stderr, code := processtest.RunProgram(t, program.Assay(), nil, append(processtest.TrainArgs(processtest.TinyBackbone(t), bags, model, 1), "--aspects", "toxicity,refusal")...)
	require.Equal(t, cli.ExitDone, code, stderr)

	b := browse(t, processtest.Serve(t, model, t.TempDir(), "--nats", "off"))
	b.do(visible(`#try`))
	b.enter(responseField, "One thing. Another thing. A third.")
	b.press("Score")
	b.see(".result caption", "Aspects")
	b.see(".result dt", "Aspect that decides")
	for _, aspect := range []string{"toxicity", "refusal"} {
		b.choose(".result select", aspect)
		want := evaluate[string](b, `[...document.querySelectorAll('.result tbody tr')].find((r) => r.cells[0].innerText === '`+aspect+`').cells[5].textContent`)
		require.Equal(t, want, b.text(".text .witness"))
	}
	b.requireAccessible("aspects")
}

// What the page offers to copy works.
func TestSnippets(t *testing.T) {
	p := processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off")
	b := browse(t, p)
	b.do(visible(`#try`))
	const text = "It's \"fine\". \u202e$HOME `id` \\ \U0001F600 " + insult
	b.enter(responseField, text)
	b.press("Score")
	b.press("This request as curl or Python")
	b.sub("curl", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("curl is not installed")
		}
		command := evaluate[string](b, `document.querySelector('.snippets pre[aria-label="curl"]').textContent`)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
		require.NoError(t, err, command)
		var answer rewardmodel.ScoreResponse
		require.NoError(t, json.Unmarshal(out, &answer), string(out))
		require.Contains(t, b.text(".result .facts"), decimals(answer.Results[0].Reward))
		require.NotContains(t, command, "\u202e", "what is copied is what is seen")
	})
	b.sub("Python", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("python3 is not installed")
		}
		program := evaluate[string](b, `document.querySelector('.snippets pre[aria-label="Python"]').textContent`)
		check := exec.CommandContext(t.Context(), "python3", "-c", "import ast,sys\nt=ast.parse(sys.stdin.read())\n"+
			"print(next(ast.literal_eval(n.value) for n in t.body if isinstance(n, ast.Assign))[0]['response'], end='')")
		check.Stdin = strings.NewReader(program)
		out, err := check.Output()
		require.NoError(t, err, program)
		require.Equal(t, text, string(out))
	})
	b.press("Copy as curl")
	b.await(`/Copied|selected/.test(document.querySelector('#announcer').textContent)`)
}
