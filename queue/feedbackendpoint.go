package queue

import (
	"bytes"
	"context"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/micro"
)

const (
	headerContentType = "Content-Type"
	typeNDJSON        = "application/x-ndjson"
)

// feedback handles a batch on assay.v1.feedback, which is one JSON object or one item per
// line. It returns the receipt once the accepted items are stored.
func (s *service) feedback(ctx context.Context, req micro.Request, memory *rewardmodel.Reservation) ([]byte, micro.Headers, error) {
	if err := memory.Grow(feedback.DecodeBytes(req.Data())); err != nil {
		return nil, nil, err
	}
	decode := feedback.Decode
	if isNDJSON(req.Headers().Get(headerContentType), req.Data()) {
		decode = feedback.DecodeLines
	}
	batch, err := decode(req.Data(), s.cfg.Feedback)
	if err != nil {
		return nil, nil, err
	}
	receipt, err := s.labels.Append(ctx, batch, "")
	if err != nil {
		return nil, nil, err
	}
	if n := len(receipt.Rejected); n > 0 && req.Reply() == "" { // otherwise the receipt is lost
		s.log.Warn().Int("rejected", n).Str("batch", batch.ID).Str("first", receipt.Rejected[0].Message).
			Msg("rejected items of feedback without a reply subject")
	}
	body, err := json.Marshal(receipt, jsontext.AllowInvalidUTF8(true))
	if limit := s.nc.MaxPayload() - deadRoom; err == nil && int64(len(body)) > limit {
		err = tooLarge("the receipt", int64(len(body)), limit,
			"the accepted items are stored; send fewer items per request, and stored items count as duplicates")
	}
	return body, nil, err
}

// isNDJSON reports whether a body is NDJSON. Most publishers set no content type: then it
// is if its first line is an item and not an object with items.
func isNDJSON(contentType string, body []byte) bool {
	if contentType != "" {
		media, _, _ := strings.Cut(contentType, ";")
		return strings.EqualFold(strings.TrimSpace(media), typeNDJSON)
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	item := false
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		switch token.String() {
		case "items":
			return false
		case "label", "labels", "id", "response_id":
			item = true
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return item
}
