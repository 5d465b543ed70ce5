package compat

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// content is the text of a chat message: a string, null, or a list of parts.
type content string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *content) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		return json.UnmarshalDecode(d, (*string)(c))
	case '[':
		var parts []textPart
		if err := json.UnmarshalDecode(d, &parts); err != nil {
			return err
		}
		text, err := joinParts(parts)
		*c = content(text)
		return err
	case 'n':
		*c = ""
		return d.SkipValue()
	}
	if err := d.SkipValue(); err != nil {
		return err
	}
	return &rewardmodel.InputError{Message: "must be a string or a list of text parts"}
}

// textPart is one part of a message that OpenAI's multimodal clients send.
type textPart struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// joinParts returns the text of all parts. Only text can be scored.
func joinParts(parts []textPart) (string, error) {
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" && p.Type != "input_text" {
			return "", &rewardmodel.InputError{Message: fmt.Sprintf("part %d is of type %.40q; only text can be scored", i, p.Type)}
		}
		if p.Text == nil {
			return "", &rewardmodel.InputError{Message: fmt.Sprintf("part %d has no text; send a string", i)}
		}
		texts[i] = *p.Text
	}
	return strings.Join(texts, "\n"), nil
}
