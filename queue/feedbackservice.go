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
	typeLines         = "application/x-ndjson"
)

// Appender stores feedback; see Feedback.Append.
type Appender interface {
	Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error)
}

// feedback answers a batch on assay.v1.feedback with its receipt, once what is
// accepted is stored: one JSON object, or one item a line.
func (s *service) feedback(ctx context.Context, req micro.Request, memory *rewardmodel.Reservation) ([]byte, micro.Headers, error) {
	if err := memory.Grow(feedback.DecodeBytes(req.Data())); err != nil {
		return nil, nil, err
	}
	decode := feedback.Decode
	if itemALine(req.Headers().Get(headerContentType), req.Data()) {
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
	if n := len(receipt.Rejected); n > 0 && req.Reply() == "" { // nobody else would know
		s.log.Warn().Int("rejected", n).Str("batch", batch.ID).Str("first", receipt.Rejected[0].Message).
			Msg("items of feedback that asks for no reply are rejected")
	}
	body, err := json.Marshal(receipt, jsontext.AllowInvalidUTF8(true))
	if limit := s.nc.MaxPayload() - deadRoom; err == nil && int64(len(body)) > limit {
		err = tooLarge("the receipt", int64(len(body)), limit,
			"what could be stored is; send fewer items a request, and what is stored counts as duplicates")
	}
	return body, nil, err
}

// itemALine tells whether a body is NDJSON. Most publishers name no type: then
// it is when its first line is an item and not an object with items.
func itemALine(contentType string, body []byte) bool {
	if contentType != "" {
		media, _, _ := strings.Cut(contentType, ";")
		return strings.EqualFold(strings.TrimSpace(media), typeLines)
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
		case "label", "id", "response_id":
			item = true
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return item
}
