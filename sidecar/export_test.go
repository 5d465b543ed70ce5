package main

import "assay/rewardmodel/encoder"

// stallingWatcher observes model calls, and says when one stalls.
type stallingWatcher interface {
	encoder.CallWatcher
	stalls
}

// breakModel has model calls observed by what wrap returns. Call it before Start.
func (s *Service) breakModel(wrap func(encoder.CallWatcher) stallingWatcher) {
	w := wrap(s.calls)
	s.calls, s.watchdog, s.live.watchdog = w, w, w
}
