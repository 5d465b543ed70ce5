package recent

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxMetadata limits what is decoded of the metadata of one response, in bytes: a
	// trainer that sends more does so for another reader.
	maxMetadata = 4 << 10
	// maxGroup limits the name of a group, in bytes.
	maxGroup = 128
)

// stepAndGroup reads the members "step" and "group" of metadata that is an object. It
// ignores values of other types, since metadata may be any JSON.
func stepAndGroup(metadata jsontext.Value) (step *float64, group string) {
	if len(metadata) > maxMetadata || !bytes.Contains(metadata, []byte(`"step"`)) && !bytes.Contains(metadata, []byte(`"group"`)) {
		return nil, ""
	}
	var members struct {
		Step  jsontext.Value `json:"step"`
		Group jsontext.Value `json:"group"`
	}
	if err := json.Unmarshal(metadata, &members); err != nil {
		return nil, ""
	}
	if members.Step.Kind() == '0' {
		if n, err := strconv.ParseFloat(string(members.Step), 64); err == nil && !math.IsInf(n, 0) {
			step = &n
		}
	}
	switch members.Group.Kind() {
	case '0':
		group = string(members.Group)
	case '"':
		if json.Unmarshal(members.Group, &group) != nil {
			group = ""
		}
	}
	return step, clip(strings.TrimSpace(group), maxGroup)
}
