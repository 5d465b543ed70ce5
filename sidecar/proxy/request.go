package proxy

import (
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

// requestBody has the fields of the three endpoints that the guard needs. Each is read
// leniently: an invalid request is the upstream's to reject.
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
	options := json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if json.Unmarshal(body, &b, options) == nil {
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
			info.prompts = []string{strings.TrimPrefix(stringOf(b.Instructions)+"\n"+conversation(b.Input), "\n")}
		}
	}
	info.choices = min(info.n*max(len(info.prompts), 1), maxTexts)
	return info
}

func stringOf(v jsontext.Value) string {
	var s string
	_ = json.Unmarshal(v, &s, jsontext.AllowInvalidUTF8(true))
	return s
}

// prompts are those of completions: a string, token ids, or a list of these.
func prompts(v jsontext.Value) []string {
	var list []jsontext.Value
	if json.Unmarshal(v, &list, jsontext.AllowInvalidUTF8(true)) != nil {
		return []string{stringOf(v)}
	}
	if len(list) == 0 || list[0].Kind() == '0' {
		return []string{""}
	}
	out := make([]string, len(list))
	for i, one := range list {
		out[i] = stringOf(one)
	}
	return out
}

// conversation is the text of messages, each on a line of its own; of a string, itself.
func conversation(v jsontext.Value) string {
	if v.Kind() == '"' {
		return stringOf(v)
	}
	var messages []struct {
		Content jsontext.Value `json:"content"`
	}
	if json.Unmarshal(v, &messages, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return ""
	}
	var turns []string
	for _, m := range messages {
		if text := contentOf(m.Content); text != "" {
			turns = append(turns, text)
		}
	}
	return strings.Join(turns, "\n")
}

// contentOf is a string, or the texts of a list of parts.
func contentOf(v jsontext.Value) string {
	if v.Kind() == '"' {
		return stringOf(v)
	}
	var parts []struct {
		Text jsontext.Value `json:"text"`
	}
	if len(v) == 0 || json.Unmarshal(v, &parts, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		if text := stringOf(p.Text); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " ")
}
