package proxy

import (
	"bytes"
	"net/http"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// endpoint is the protocol of a request.
type endpoint string

const (
	chatEndpoint       endpoint = "chat"
	completionEndpoint endpoint = "completions"
	responseEndpoint   endpoint = "responses"
	otherEndpoint      endpoint = "other"
)

// endpointOf recognizes the guarded endpoints under any prefix, since servers have aliases
// such as /chat/completions. Responses that were stored earlier are guarded as well. What
// has no text of the model in its response is not: the methods below, and the count of
// input tokens. All other methods are guarded, since some servers take PUT for POST.
func endpointOf(method, urlPath string) endpoint {
	switch method {
	case http.MethodHead, http.MethodOptions, http.MethodDelete:
		return otherEndpoint
	}
	parts := strings.Split(strings.Trim(path.Clean("/"+urlPath), "/"), "/")
	at := func(fromEnd int) string {
		if i := len(parts) - 1 - fromEnd; i >= 0 {
			return parts[i]
		}
		return ""
	}
	switch {
	case at(1) == "chat" && at(0) == "completions", at(2) == "chat" && at(1) == "completions":
		return chatEndpoint
	case at(0) == "completions":
		return completionEndpoint
	case at(1) == "responses" && at(0) == "input_tokens":
		return otherEndpoint
	case at(0) == "responses", at(1) == "responses", at(2) == "responses" && at(0) == "cancel":
		return responseEndpoint
	}
	return otherEndpoint
}

// mayHoldText reports whether the response to a request to another endpoint may hold text
// that the model writes, or has written and the upstream has stored.
func mayHoldText(r *http.Request) bool {
	switch {
	case r.Header.Get("Upgrade") != "":
		return true
	case r.Method == http.MethodHead, r.Method == http.MethodOptions, r.Method == http.MethodDelete:
		return false
	case r.Method != http.MethodGet:
		return true
	}
	for part := range strings.SplitSeq(path.Clean("/"+r.URL.Path), "/") {
		switch strings.ToLower(part) {
		case "files", "conversations", "input_items", "threads", "messages", "batches", "containers", "vector_stores", "evals":
			return true
		}
	}
	return false
}

// requestInfo is what the guard needs of a request.
type requestInfo struct {
	prompts []string // of completions; otherwise one
	n       int      // choices per prompt
	choices int      // that the response has, or maxTexts if it asks for more
}

// prompt is what a choice answers. It does not end with an opening tag of reasoning: a
// session would hold the whole text back, and a user may have written the tag.
func (r requestInfo) prompt(choice int) string {
	if len(r.prompts) == 0 || choice < 0 {
		return ""
	}
	prompt := r.prompts[min(choice/max(r.n, 1), len(r.prompts)-1)]
	for {
		before, found := strings.CutSuffix(strings.TrimSpace(prompt), "<think>")
		if !found {
			return prompt
		}
		prompt = before
	}
}

// lenient are the options for requests: an invalid one is the upstream's to reject.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// requestBody has the fields of the three endpoints that the guard needs.
type requestBody struct {
	N            jsontext.Value `json:"n"`
	Prompt       jsontext.Value `json:"prompt"`
	Messages     jsontext.Value `json:"messages"`
	Input        jsontext.Value `json:"input"`
	Instructions jsontext.Value `json:"instructions"`
}

func readRequest(e endpoint, body []byte) requestInfo {
	var b requestBody
	info := requestInfo{n: 1}
	if json.Unmarshal(body, &b, lenient) == nil {
		var n int
		if json.Unmarshal(b.N, &n) == nil {
			info.n = min(max(n, 1), maxTexts)
		}
		switch e {
		case chatEndpoint:
			info.prompts = []string{conversation(b.Messages)}
		case completionEndpoint:
			info.prompts = prompts(b.Prompt)
		case responseEndpoint:
			info.n = 1
			info.prompts = []string{strings.TrimPrefix(stringAt(decoderOf(b.Instructions))+"\n"+conversation(b.Input), "\n")}
		}
	}
	info.choices = min(info.n*max(len(info.prompts), 1), maxTexts)
	return info
}

// stringAt reads a string; of another value, nothing.
func stringAt(d *jsontext.Decoder) (s string) {
	if d.PeekKind() != '"' {
		_ = d.SkipValue()
		return ""
	}
	v, _ := d.ReadValue()
	_ = json.Unmarshal(v, &s, lenient)
	return s
}

// values yields in front of each value of a list, or each name of an object, which the
// loop reads; never for what starts otherwise, which it skips. All that d reads is valid.
// So no list is built: one of millions of short values is many times as large as its text.
func values(d *jsontext.Decoder, start jsontext.Kind) func(yield func() bool) {
	return func(yield func() bool) {
		if d.PeekKind() != start {
			_ = d.SkipValue()
			return
		}
		_, _ = d.ReadToken()
		for kind := d.PeekKind(); kind != ']' && kind != '}'; kind = d.PeekKind() {
			if kind == jsontext.KindInvalid || !yield() {
				return
			}
		}
		_, _ = d.ReadToken()
	}
}

// member reads a member of an object with read, and skips the others. Of several with the
// name, the last one counts.
func member(d *jsontext.Decoder, name string, read func(*jsontext.Decoder) string) (text string) {
	for range values(d, '{') {
		if is, _ := d.ReadToken(); is.String() == name {
			text = read(d)
		} else {
			_ = d.SkipValue()
		}
	}
	return text
}

func decoderOf(v jsontext.Value) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(v), lenient)
}

// prompts are those of completions: a string, token ids, or a list of these, of which no
// response has choices for more than maxTexts.
func prompts(v jsontext.Value) []string {
	if v.Kind() != '[' {
		return []string{stringAt(decoderOf(v))}
	}
	var out []string
	d := decoderOf(v)
	for range values(d, '[') {
		if out == nil && d.PeekKind() == '0' || len(out) == maxTexts {
			break
		}
		out = append(out, stringAt(d))
	}
	if out == nil {
		return []string{""}
	}
	return out
}

// conversation is the text of messages, each on a line of its own; of a string, itself.
func conversation(v jsontext.Value) string {
	return textAt(decoderOf(v), "\n", func(d *jsontext.Decoder) string { return member(d, "content", contentAt) })
}

// contentAt reads a string, or the texts of a list of parts.
func contentAt(d *jsontext.Decoder) string {
	return textAt(d, " ", func(d *jsontext.Decoder) string { return member(d, "text", stringAt) })
}

// textAt reads a string, or the texts of a list that are not empty, joined.
func textAt(d *jsontext.Decoder, separator string, read func(*jsontext.Decoder) string) string {
	if d.PeekKind() != '[' {
		return stringAt(d)
	}
	var out strings.Builder
	for range values(d, '[') {
		text := read(d)
		if out.Len() > 0 && text != "" {
			out.WriteString(separator)
		}
		out.WriteString(text)
	}
	return out.String()
}
