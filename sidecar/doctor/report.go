package doctor

import (
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Report is all findings, as JSON.
type Report struct {
	Findings []Finding `json:"findings"`
	Errors   int       `json:"errors"`   // number of findings with the status Error
	Warnings int       `json:"warnings"` // number of findings with the status Warning
}

func (r *Report) add(f Finding) {
	r.Findings = append(r.Findings, f)
	switch f.Status {
	case Error:
		r.Errors++
	case Warning:
		r.Warnings++
	case OK:
	}
}

// WriteText writes each finding as soon as it is known: a line with its status, its check and its detail, and a line with
// the fix. It returns the report.
func WriteText(w io.Writer, findings iter.Seq[Finding]) (report Report, err error) {
	const columns = "%-7s  %-9s  "
	for f := range findings {
		report.add(f)
		if _, err := fmt.Fprintf(w, columns+"%s\n", f.Status, f.Check, f.Detail); err != nil {
			return report, err
		}
		if f.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, columns+"fix: %s\n", "", "", f.Fix); err != nil {
			return report, err
		}
	}
	return report, nil
}

// WriteJSON writes the report as one JSON object, and returns it.
func WriteJSON(w io.Writer, findings iter.Seq[Finding]) (report Report, err error) {
	for f := range findings {
		report.add(f)
	}
	if err := json.MarshalWrite(w, report, jsontext.WithIndent("  ")); err != nil {
		return report, err
	}
	_, err = fmt.Fprintln(w)
	return report, err
}
