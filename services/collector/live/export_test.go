package live

import "time"

// Settle waits for the scan or opening that is on its way and for the calls that were let go, so that what the next second says does not
// depend on how fast they are; and the next opening is due.
func (s *Sampler) Settle(returning bool) {
	if s.probe != nil {
		s.probe.done <- <-s.probe.done
	}
	for _, w := range s.workers {
		if returning && w.busy {
			w.done <- <-w.done
		}
	}
	s.openAt = time.Time{}
}
