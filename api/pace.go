package api

import "time"

// paced is when n bytes must have passed since start.
func (s *Server) paced(start time.Time, n int64) time.Time {
	return start.Add(s.cfg.HeaderTimeout + time.Duration(float64(n)/float64(s.cfg.MinRate)*float64(time.Second)))
}
