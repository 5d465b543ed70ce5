package wire

import (
	"strings"

	"assay/rewardmodel"
)

// LiveMessage is a message from the client of a live session. Exactly one of its
// fields is set: the first message opens the session, the last one closes it.
type LiveMessage struct {
	Open  *rewardmodel.LiveRequest // without Memory and Source, which are the transport's
	Text  *string                  // the next piece of the response, valid UTF-8; may be empty
	Close bool
	// Progress is of Open: the client wants an event once the session is open and whenever
	// text is scored.
	Progress bool
}

// DecodeLiveMessage parses a message of a live session, as strictly as DecodeRequest:
//
//	{"open":{"id":"...","prompt":"...","model":"...","options":{...},"provisional_tokens":16,"max_utterances":40,"progress":true}}
//	{"text":"..."}
//	{"close":{}}
//
// Every member of open may be omitted. The order of messages is the caller's to check.
// Every error is an *InputError, with a field such as "open.options.reward".
func DecodeLiveMessage(line []byte, limits Limits) (LiveMessage, error) {
	d := newDecoder(line, limits)
	var m LiveMessage
	var given []string
	err := d.document(func(name string) (err error) {
		switch name {
		case "open":
			m.Open = &rewardmodel.LiveRequest{}
			err = d.object(d.openMember(&m))
		case "text":
			var text string
			text, err = d.text()
			m.Text = &text
		case "close":
			m.Close = true
			err = d.object(func(string) error { return d.skip() })
		default:
			return d.skip()
		}
		given = append(given, name)
		return err
	})
	if err != nil {
		return LiveMessage{}, err
	}
	if len(given) != 1 {
		const fix = `send one of {"open":{...}}, {"text":"..."} and {"close":{}}`
		if len(given) == 0 {
			return LiveMessage{}, rewardmodel.Invalidf("", "the message has none of open, text and close; %s", fix)
		}
		return LiveMessage{}, rewardmodel.Invalidf("", "%s are given together; %s", strings.Join(given, " and "), fix)
	}
	if m.Open != nil {
		if err := m.Open.Validate(); err != nil {
			return LiveMessage{}, within("open", err)
		}
	}
	return m, nil
}

func (d *decoder) openMember(m *LiveMessage) func(string) error {
	r := m.Open
	return func(name string) (err error) {
		switch name {
		case "id":
			r.ID, err = d.name()
		case "prompt":
			r.Prompt, err = d.text()
		case "model":
			r.Model, err = d.name()
		case "options":
			err = d.options(&r.Options)
		case "provisional_tokens":
			var tokens *int
			if tokens, err = d.integer(); err == nil {
				r.Provisional = *tokens
			}
		case "max_utterances":
			var most *int
			if most, err = d.integer(); err == nil {
				r.MaxUtterances = *most
			}
		case "progress":
			var wanted *bool
			if wanted, err = d.boolean(); err == nil {
				m.Progress = *wanted
			}
		default:
			err = d.skip()
		}
		return err
	}
}

// AppendLiveEvent appends the JSON of an event to dst: {"reset":{}}, with
// the index of the first void utterance unless that is 0, or
//
//	{"utterance":{"index":0,"start":0,"end":12,"text":"...","violation":0.1},
//	 "violation":0.1,"reward":0.9,"compliant":true,"stop":false}
//
// The utterance has "violating":true if it alone is above the threshold, and
// "provisional":true while it is open. As with WriteResult, the text
// becomes valid UTF-8, and the only error is a non-finite number, which no session
// returns.
func AppendLiveEvent(dst []byte, e rewardmodel.LiveEvent) ([]byte, error) {
	if e.Reset {
		return appendJSON(dst, liveResetEventJSON{liveResetJSON{e.Utterance.Index}})
	}
	return appendJSON(dst, liveEventJSON{
		Utterance: liveUtteranceJSON{
			Index: e.Utterance.Index, Start: e.Utterance.Start, End: e.Utterance.End, Text: e.Utterance.Text,
			Violation: e.Utterance.Violation, Violating: e.Utterance.Violating, Provisional: e.Utterance.Provisional,
		},
		Violation: e.Violation, Reward: e.Reward, Compliant: e.Compliant, Stop: e.Stop,
	})
}

type liveResetEventJSON struct {
	Reset liveResetJSON `json:"reset"`
}

type liveResetJSON struct {
	Index int `json:"index,omitzero"`
}

type liveEventJSON struct {
	Utterance liveUtteranceJSON `json:"utterance"`
	Violation float64           `json:"violation"`
	Reward    float64           `json:"reward"`
	Compliant bool              `json:"compliant"`
	Stop      bool              `json:"stop"`
}

type liveUtteranceJSON struct {
	Index       int     `json:"index"`
	Start       int     `json:"start"`
	End         int     `json:"end"`
	Text        string  `json:"text"`
	Violation   float64 `json:"violation"`
	Violating   bool    `json:"violating,omitzero"`
	Provisional bool    `json:"provisional,omitzero"`
}

// AppendLiveProgress appends the JSON of progress to dst: {"progress":{"bytes":12}}, where
// bytes are those of the text, in UTF-8, whose complete utterances are scored.
func AppendLiveProgress(dst []byte, bytes int) ([]byte, error) {
	return appendJSON(dst, liveProgressEventJSON{liveProgressJSON{bytes}})
}

type liveProgressEventJSON struct {
	Progress liveProgressJSON `json:"progress"`
}

type liveProgressJSON struct {
	Bytes int `json:"bytes"`
}

// AppendLiveResult appends the JSON of the result of a session, which answer holds, to
// dst: {"result":{...},"model":{...},"offset_unit":"..."}. Its error is that of
// AppendLiveEvent.
func AppendLiveResult(dst []byte, answer rewardmodel.ScoreResponse) ([]byte, error) {
	return appendJSON(dst, liveResultJSON{answer.Results[0], answer.Model, answer.OffsetUnit})
}

type liveResultJSON struct {
	Result     rewardmodel.Result     `json:"result"`
	Model      rewardmodel.ModelInfo  `json:"model"`
	OffsetUnit rewardmodel.OffsetUnit `json:"offset_unit"`
}

// AppendLiveError appends the JSON of the error that ends a session to dst:
// {"error":{"code":"...","message":"...","field":"..."}}, without an empty field.
func AppendLiveError(dst []byte, code, message, field string) ([]byte, error) {
	return appendJSON(dst, liveErrorJSON{liveErrorBodyJSON{code, message, field}})
}

type liveErrorJSON struct {
	Error liveErrorBodyJSON `json:"error"`
}

type liveErrorBodyJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitzero"`
}
