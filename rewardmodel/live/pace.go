package live

import "time"

// slowBytes is the text per Limits.Idle below which a session is slow: less than a policy
// writes in a few seconds.
const slowBytes = 256

// pace is how much text a session receives.
type pace struct {
	from  time.Time // of the current period, at least Limits.Idle long
	bytes int       // in it
	slow  bool      // less than slowBytes in the one before
}

// received counts text.
func (p *pace) received(bytes int, now time.Time, period time.Duration) {
	p.bytes += bytes
	if now.Sub(p.from) >= period {
		*p = pace{from: now, slow: p.bytes < slowBytes}
	}
}

func (p *pace) isSlow() bool { return p.slow && p.bytes < slowBytes }
