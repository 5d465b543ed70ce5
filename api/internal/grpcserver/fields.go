package grpcserver

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"assay/api/internal/failure"
)

// fieldBytes is the maximum memory of a decoded field of a message: an empty tensor
// message is the largest.
const fieldBytes = 160

// maxFields returns the maximum number of values of a message: a prompt and a
// response for each of maxResponses items, twice, and some to describe them.
func maxFields(maxResponses int) int { return 4*maxResponses + 4096 }

// CountFields counts the values of a message before it is decoded, including
// those of nested messages and the elements of packed lists. An empty text is two
// bytes on the wire and many more in memory.
func CountFields(data []byte, of protoreflect.MessageDescriptor, limit int) (int, error) {
	count := 0
	err := walkFields(data, of, func(n int) error {
		if count += n; count > limit {
			return failure.TooLarge("", "the message has more than %d values; send fewer texts per call", limit)
		}
		return nil
	})
	return count, err
}

func walkFields(data []byte, of protoreflect.MessageDescriptor, add func(n int) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil // the decoder reports what is wrong
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

// walkValue counts the contents of a length-delimited value.
func walkValue(value []byte, field protoreflect.FieldDescriptor, add func(n int) error) error {
	switch {
	case field.Message() != nil:
		return walkFields(value, field.Message(), add)
	case field.IsPacked():
		return add(len(value)) // at least one byte for each element
	}
	return nil
}
