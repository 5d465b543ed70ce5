package consoletest_test

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// decimals formats a number as the console does.
func decimals(value float64) string { return strconv.FormatFloat(value, 'f', 3, 64) }

func TestModels(t *testing.T) {
	p := serveTwoVersions(t)
	b := browse(t, p)
	b.scoreExample()
	b.enter(responseField, "The train leaves at noon. Some people there are rude and silly.")
	b.press("Score")
	b.see(".result h3", "✓ compliant")
	b.open("models")
	b.see("#view caption", "Model versions")
	b.see("#record", p.Ready.Model)

	b.sub("which verdicts differ", func(t *testing.T) {
		b.press("Compare on 1 response in Try")
		b.see("#differences", "1 verdict of 1 response (100 %) differ")
		b.click("#differences tbody button")
		b.await(`document.querySelectorAll('#differences .result').length === 2`)
	})
	b.sub("why a candidate was rejected", func(t *testing.T) {
		b.press(rejectedVersion)
		b.see("#record h2", rejectedVersion)
		b.see("#record", "✕ Rejected.")
		b.see("#record", "more than the margin of 0.02")
		require.True(t, evaluate[bool](b, `[...document.querySelectorAll('#record button')].find((e) => e.innerText === 'Promote…').disabled`), "its files are deleted")
		b.screenshot("models")
	})
	b.sub("pin", func(t *testing.T) {
		b.press(strictVersion)
		b.see("#record", "✓ Passed.")
		b.see("#record", "60 new labels")
		b.press("Open in Try")
		b.do(visible(`#try`))
		require.Equal(t, strictVersion, evaluate[string](b, `document.querySelector('#try select').value`))
		b.press("Score")
		b.see(".result .facts", strictVersion)
	})
	b.sub("promote by keyboard", func(t *testing.T) {
		b.open("models?version=" + strictVersion)
		b.see("#record h2", strictVersion)
		b.do(chromedp.Focus(`//section[@aria-label="Version ` + strictVersion + `"]//button[text()="Promote…"]`))
		b.keys(kb.Enter)
		b.do(visible(`dialog[open] input`))
		b.requireAccessible("dialog")
		b.tabTo(`dialog input`)
		b.do(insert("stricter"))
		b.keys(kb.Enter)
		b.see("#announcer, #record h2", strictVersion)
		b.see("#view table", "● current")
		processtest.AwaitVersion(t, p.Ready.HTTP, strictVersion)
	})
	b.sub("roll back, and change one's mind first", func(t *testing.T) {
		b.press("Roll back…")
		b.do(visible(`dialog[open]`))
		b.keys(kb.Escape)
		b.await(`document.querySelector('dialog[open]') === null`)
		b.press("Roll back…")
		b.do(visible(`dialog[open]`))
		b.click(`dialog[open] button[type=submit]`)
		processtest.AwaitVersion(t, p.Ready.HTTP, p.Ready.Model)
	})
}
