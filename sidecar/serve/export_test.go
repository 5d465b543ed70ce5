package serve

import "assay/rewardmodel/encoder"

// StallingWatcher observes model calls, and says when one stalls.
type StallingWatcher interface {
	encoder.CallWatcher
	stalls
}

// BreakModel has model calls observed by what wrap returns. Call it before Start.
func (s *Service) BreakModel(wrap func(encoder.CallWatcher) StallingWatcher) {
	w := wrap(s.calls)
	s.calls, s.watchdog, s.live.watchdog = w, w, w
}
