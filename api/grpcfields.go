package api

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fieldBytes is what a field of a message takes at most once it is decoded: a
// message of tensors with nothing in it is the largest.
const fieldBytes = 160

// maxFields is how many values a message may have: a prompt and a response for
// each item twice over, and some to describe them.
func (s *Server) maxFields() int { return 4*s.maxResponses() + 4096 }

// countFields counts the values of a message before it is decoded, those of
// messages within and the elements of packed lists too. An empty text is two
// bytes on the wire and many more in memory.
func countFields(data []byte, of protoreflect.MessageDescriptor, limit int) (int, error) {
	count := 0
	err := walkFields(data, of, func(n int) error {
		if count += n; count > limit {
			return errTooLarge("", "the message has more than %d values; send fewer texts per call", limit)
		}
		return nil
	})
	return count, err
}

func walkFields(data []byte, of protoreflect.MessageDescriptor, add func(n int) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil // the decoder says what is wrong with it
		}
		data = data[n:]
		size := protowire.ConsumeFieldValue(number, kind, data)
		if size < 0 {
			return nil
		}
		if err := add(1); err != nil {
			return err
		}
		if field := of.Fields().ByNumber(number); field != nil && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data)
			if err := walkValue(value, field, add); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// walkValue counts what is inside of a length-delimited value.
func walkValue(value []byte, field protoreflect.FieldDescriptor, add func(n int) error) error {
	switch {
	case field.Message() != nil:
		return walkFields(value, field.Message(), add)
	case field.IsPacked():
		return add(len(value)) // at least one byte for each element
	}
	return nil
}
