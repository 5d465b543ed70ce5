package report

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var page string

// WriteHTML writes a page that needs no network, no script and no other file, and that can be printed. All texts are
// escaped.
func (s Summary) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"number": number, "decimals": decimals, "percent": percent, "verdict": verdict,
		"bars": bars, "overSteps": overSteps, "calibrationCurve": calibrationCurve, "lossCurve": lossCurve,
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, s)
}
