package api

import (
	"fmt"

	"assay/rewardmodel/wire"
)

// limits are what changes while the server runs.
type limits struct {
	maxBody int64
	scoring wire.Limits
}

// SetLimits replaces Config.MaxBody and Config.Limits for requests that come
// from now on.
func (s *Server) SetLimits(maxBody int64, scoring wire.Limits) error {
	if maxBody <= 0 {
		return fmt.Errorf("api: MaxBody (--max-body) is %d: give a number of bytes above 0", maxBody)
	}
	s.limits.Store(&limits{maxBody, scoring})
	return nil
}
