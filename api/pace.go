package api

import (
	"context"
	"fmt"
	"time"
)

// paced is when n bytes must have passed since start.
func (s *Server) paced(start time.Time, n int64) time.Time {
	return start.Add(s.cfg.HeaderTimeout + time.Duration(float64(n)/float64(s.cfg.MinRate)*float64(time.Second)))
}

// errSlow says that a body did not arrive as fast as paced asks.
func (s *Server) errSlow(read int64) error {
	return fmt.Errorf("the body did not arrive: %d bytes came, and it must make %d bytes per second: %w", read, s.cfg.MinRate, context.DeadlineExceeded)
}
