package segmenter

import "context"

// progress counts the work on a text and stops it once ctx is done. Every rule
// reports the bytes that it inspects, including repeated ones, so that the count
// bounds the time independently of the machine.
type progress struct {
	ctx   context.Context
	bytes int // of work so far
	due   int // count at which ctx is checked next
	err   error
}

// checkEvery is the work between two checks of the context, in bytes.
const checkEvery = 16 << 10

// charge adds n bytes of work.
func (p *progress) charge(n int) {
	if p.bytes += n; p.bytes >= p.due {
		p.check()
	}
}

func (p *progress) check() {
	p.due = p.bytes + checkEvery
	if p.err == nil {
		p.err = p.ctx.Err()
	}
}
