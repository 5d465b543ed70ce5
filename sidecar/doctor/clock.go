package doctor

import (
	"fmt"
	"time"
)

const (
	fixClock = "synchronize the clock of this machine: timedatectl set-ntp true, or chronyd"
	// maxSkew is the difference between two clocks that is not worth a warning.
	maxSkew = 2 * time.Second
)

// clock judges the time of this process. built is when the commit of the binary was made; zero: unknown.
func clock(now, built time.Time) []Finding {
	detail := now.UTC().Format(time.RFC3339)
	switch {
	case now.Before(built) && now.Year() < built.Year():
		return []Finding{{"clock", Error, fmt.Sprintf("%s is before the commit of this binary, %s", detail, built.UTC().Format(time.RFC3339)), fixClock}}
	case now.Before(built):
		return []Finding{{"clock", Warning, fmt.Sprintf("%s is before the commit of this binary, %s", detail, built.UTC().Format(time.RFC3339)), fixClock}}
	}
	return []Finding{{"clock", OK, detail, ""}}
}

// skew judges how far another clock is ahead of the clock of this process. of names its owner.
func skew(of string, ahead time.Duration) []Finding {
	if ahead.Abs() <= maxSkew {
		return nil
	}
	relation := "ahead of"
	if ahead < 0 {
		relation = "behind"
	}
	return []Finding{{"clock", Warning, fmt.Sprintf("the clock of %s is %s %s this machine's", of, rounded(ahead.Abs()), relation), fixClock + ", and that of the other machine"}}
}
