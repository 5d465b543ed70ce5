package segmenter

import "context"

// progress counts the work that is done on a text and stops it once ctx is
// done. Every rule reports what it looks at, also what it looks at again, so
// that the count bounds the time and does not depend on the machine.
type progress struct {
	ctx    context.Context
	looked int // bytes
	due    int // where ctx is asked next
	err    error
}

// checkEvery is the work between two looks at the context, in bytes.
const checkEvery = 16 << 10

// look adds n bytes of work.
func (p *progress) look(n int) {
	if p.looked += n; p.looked >= p.due {
		p.check()
	}
}

func (p *progress) check() {
	p.due = p.looked + checkEvery
	if p.err == nil {
		p.err = p.ctx.Err()
	}
}
