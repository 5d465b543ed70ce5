package segmenter

// retry is the end of the known text from which a decision that was not final is made
// again. The more it read, the more new text it waits for, so that text which arrives
// byte by byte costs a bounded amount of work per byte.
type retry int

// maxRetryCost is the maximum work of repeated decisions per byte of new text.
const maxRetryCost = 64

// after delays the next attempt after one that read cost bytes of a text that ended at
// end.
func (r *retry) after(end, cost int) { *r = retry(end + max(1, cost/maxRetryCost)) }

func (r retry) due(end int) bool { return end >= int(r) }

func (r *retry) shift(n int) { *r -= retry(n) }
