package serve

import "assay/rewardmodel/live"

// Watchdog is the watchdog of a service.
type Watchdog = watchdog

// ReplaceWatchdog has model calls observed by what replace returns. Call it before Start.
func (s *Service) ReplaceWatchdog(replace func(Watchdog) Watchdog) {
	s.handle.watchdog = replace(s.handle.watchdog)
}

// Live are the live sessions of a service.
func (s *Service) Live() *live.Sessions { return s.live }
