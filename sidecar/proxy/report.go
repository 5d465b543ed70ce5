package proxy

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
)

// Report is what the proxy adds to a guarded response: the member "assay" of its last
// event or of its body, and the header or trailer Assay-Verdict.
type Report struct {
	Mode Mode `json:"mode"`
	// Compliant is false if a text violates, and null if none does and one has no
	// verdict, or the proxy cannot read the response.
	Compliant *bool   `json:"compliant"`
	Violation float64 `json:"violation"` // the maximum over the texts, in [0,1]
	// Reward is the minimum over the texts: a compliance, in [0,1]. It is null if
	// Compliant is.
	Reward *float64     `json:"reward"`
	Model  string       `json:"model,omitzero"`
	Texts  []TextReport `json:"texts,omitzero"`
}

// TextReport is the verdict of one text.
type TextReport struct {
	Choice    int      `json:"choice"` // the index of the choice or of the output item
	Field     string   `json:"field"`  // such as content
	Compliant *bool    `json:"compliant"`
	Violation float64  `json:"violation"`
	Reward    *float64 `json:"reward"` // null if nothing was scored
	Witness   *Witness `json:"witness,omitzero"`
	// Complete is false if Violation and Reward are of a part of the text: the choice
	// was stopped, the connection was lost, or scoring failed.
	Complete bool `json:"complete"`
	// Action is what mode hold, stop or redact did: "withheld", "stopped" or "redacted".
	Action string `json:"action,omitzero"`
}

// Witness is the utterance with the largest violation, in bytes of the upstream's text.
type Witness struct {
	Start     int     `json:"start"`
	End       int     `json:"end"`
	Violation float64 `json:"violation"`
}

// report describes the answer so far.
func (a *answer) report() Report {
	a.mu.Lock()
	texts, unknown := slices.Clone(a.texts), a.fails
	a.mu.Unlock()
	violating, reward := false, 1.0
	r := Report{Mode: a.config.Mode}
	for _, t := range texts {
		one, model, empty := t.summary()
		if empty {
			continue
		}
		r.Texts, r.Model = append(r.Texts, one), cmp.Or(r.Model, model)
		r.Violation = max(r.Violation, one.Violation)
		if one.Reward != nil {
			reward = min(reward, *one.Reward)
		}
		unknown = unknown || one.Compliant == nil
		violating = violating || one.Compliant != nil && !*one.Compliant
	}
	if violating || !unknown {
		r.Compliant, r.Reward = new(!violating), &reward
	}
	slices.SortStableFunc(r.Texts, func(x, y TextReport) int { return cmp.Compare(x.Choice, y.Choice) })
	return r
}

// verdict is compliant, violating, or unknown.
func (r Report) verdict() string {
	switch {
	case r.Compliant == nil:
		return "unknown"
	case *r.Compliant:
		return "compliant"
	}
	return "violating"
}

// summary describes the text. empty reports that there was nothing to score in it.
func (t *text) summary() (r TextReport, model string, empty bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r = TextReport{Choice: t.choice, Field: t.field, Complete: t.complete && t.err == nil, Witness: t.verdict.Witness}
	if t.scored {
		r.Violation, r.Reward = t.verdict.Violation, new(t.verdict.Reward)
	}
	if t.scored && (r.Complete || !t.verdict.Compliant || t.withheld) {
		compliant := t.verdict.Compliant && !t.withheld
		r.Compliant = &compliant
	}
	switch {
	case t.withheld && t.answer.config.Mode == Stop:
		r.Action = "stopped"
	case t.withheld:
		r.Action = "withheld"
	case t.redactions > 0:
		r.Action = "redacted"
	}
	return r, t.verdict.Model, !t.begun || t.verdict.Empty
}

// maxHeader bounds the report in a header or trailer, in bytes: clients limit theirs.
const maxHeader = 4 << 10

// header is the report as a header value, without its texts if these are too many.
func (r Report) header() string {
	b, err := json.Marshal(r)
	if err == nil && len(b) > maxHeader {
		r.Texts = nil
		b, err = json.Marshal(r)
	}
	if err != nil {
		return "" // a non-finite number, which no guard returns
	}
	return string(b)
}
