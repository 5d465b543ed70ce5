package queue

import "assay/rewardmodel"

// payload is a message that is being rendered. It is charged as it grows, and
// fails before it is larger than the limit.
type payload struct {
	memory *rewardmodel.Reservation
	limit  int64
	data   []byte
}

// Write implements io.Writer.
func (p *payload) Write(data []byte) (int, error) {
	size := int64(len(p.data) + len(data))
	if size > p.limit {
		return 0, tooLarge("the result", size, p.limit, `send fewer responses per request, or "options":{"instances":false}`)
	}
	if more := size - int64(cap(p.data)); more > 0 {
		more += size / 2
		if err := p.memory.Grow(more); err != nil {
			return 0, err
		}
		p.data = append(make([]byte, 0, int64(cap(p.data))+more), p.data...)
	}
	p.data = append(p.data, data...)
	return len(data), nil
}
