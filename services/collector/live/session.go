package live

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// probed takes what a scan found. It waits for it only when there is no unit that could be sampled meanwhile.
func (s *Sampler) probed(expired <-chan struct{}) (f found, ok bool) {
	if s.probe == nil {
		if s.session != nil || !s.open(time.Now()) {
			return found{}, false
		}
	}
	if len(s.workers) > 0 {
		expired = over() // there is something to do meanwhile
	}
	if f, ok = s.probe.await(expired); ok {
		s.probe = nil
		return f, true
	}
	if s.probe.ticks++; s.probe.ticks >= slowScan {
		s.alarms.raise("scan_hangs", "the search for devices does not come back; the known ones are sampled, new ones are not seen",
			"seconds", s.probe.ticks)
	}
	return found{}, false
}

// slowScan is for how many ticks a scan may be on its way before somebody is told.
const slowScan = 3

// settle makes the workers those of the units that were found.
func (s *Sampler) settle(f found, ok bool) {
	switch {
	case !ok:
	case f.err == nil:
		s.adopt(f)
	case s.session == nil:
		s.why = f.err
		s.alarms.raise("no_hardware", "the hardware cannot be opened", "error", f.err, "next_attempt_in", s.wait)
	default:
		s.stats.ScanErrors++
		s.alarms.raise("scan_fails", "the search for devices failed; the known ones are sampled", "error", f.err)
		if errors.Is(f.err, collector.ErrSession) {
			s.reopen, s.why = true, f.err
		}
	}
}

func (s *Sampler) adopt(f found) {
	if s.session != f.session {
		s.session, s.known = f.session, nil
		s.stats.Sessions++
	}
	s.stats.Scans++
	workers := make([]*worker, 0, len(f.units))
	for _, u := range f.units {
		same := func(w *worker) bool { return w.unit == u }
		if slices.ContainsFunc(workers, same) {
			continue
		}
		w := s.worker(u, same)
		w.stale = true
		workers = append(workers, w)
	}
	for _, w := range s.workers {
		if !slices.Contains(workers, w) {
			s.leave(w)
		}
	}
	s.workers = workers
	s.describe(f.topology)
}

// worker is the unit's own where it has one: a unit that is back while a call still hangs in it is not asked again before that returns.
func (s *Sampler) worker(u collector.Unit, same func(*worker) bool) *worker {
	if i := slices.IndexFunc(s.workers, same); i >= 0 {
		return s.workers[i]
	}
	if i := slices.IndexFunc(s.left, same); i >= 0 {
		w := s.left[i]
		s.left = slices.Delete(s.left, i, i+1)
		return w
	}
	return newWorker(s.session, u)
}

// leave ends a worker whose unit is gone. One in which a call hangs is kept until that returns: its unit may come back.
func (s *Sampler) leave(w *worker) {
	if w.busy {
		s.left = append(s.left, w)
		return
	}
	close(w.kick)
}

// describe keeps the old topology where the new one says the same. One that no batch could carry is not told.
func (s *Sampler) describe(t *usage.Topology) {
	slices.SortStableFunc(t.Devices, func(a, b usage.Device) int { return strings.Compare(a.Name, b.Name) })
	t.Devices = slices.CompactFunc(t.Devices, func(a, b usage.Device) bool { return a.Name == b.Name })
	if s.topology != nil && reflect.DeepEqual(*s.topology, *t) {
		return
	}
	err := (&usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: 1, Topology: t}).Validate()
	if err == nil && !collector.Fits(t) {
		err = fmt.Errorf("%d devices have longer names and descriptions than a message of the log has room for", len(t.Devices))
	}
	if err != nil {
		s.stats.ScanErrors++
		s.alarms.raise("topology_refused", "what the hardware says of its devices fits in no batch", "error", err)
		return
	}
	s.topology = t
}

// next starts what is due after a second: giving up a lost session, opening one, a scan.
func (s *Sampler) next(now time.Time) {
	if s.reopen && s.session != nil {
		s.lose()
	} else if s.session != nil && slices.ContainsFunc(s.workers, func(w *worker) bool { return !w.busy }) {
		s.wait = 0 // the session works
	}
	s.reopen = false
	if s.session == nil {
		if s.probe == nil {
			s.open(now)
		}
		return
	}
	if s.probe == nil && (s.change && !now.Before(s.changeAt) || !now.Before(s.scanAt)) {
		s.scan(now)
	}
}

// scan begins one. A unit that asks for the next one after each, because its driver refuses a slice that it lists, is heard ever later:
// a scan every second for ever would hold locks of the driver that others wait for.
func (s *Sampler) scan(now time.Time) {
	if s.change {
		s.again = min(max(2*s.again, firstWait), s.cfg.Rescan)
	} else {
		s.again = 0
	}
	s.change, s.changeAt, s.scanAt = false, now.Add(s.again), now.Add(s.cfg.Rescan)
	session := s.session
	s.probe = newProbe(func() found { return scan(session) })
}

// lose gives a session up. Its devices are still expected until a new one says what there is.
func (s *Sampler) lose() {
	hangs := s.probe != nil || slices.ContainsFunc(s.left, func(w *worker) bool { return w.session == s.session })
	s.known = s.known[:0]
	for _, w := range s.workers {
		s.known = append(s.known, w.devices...)
		hangs = hangs || w.busy
		s.leave(w)
	}
	s.workers = nil
	if s.probe != nil {
		s.lost = append(s.lost, s.probe)
		s.probe = nil
	}
	if !hangs {
		s.old = s.session
	}
	s.session = nil
	s.alarms.raise("session_lost", "the session with the driver is lost", "error", s.why, "call_hangs", hangs)
}

// open begins a session when it is time, and tells whether it did. The wait before the attempt after it doubles, until a session works.
func (s *Sampler) open(now time.Time) bool {
	if now.Before(s.openAt) {
		return false
	}
	if n := len(s.left) + len(s.lost); n > maxLeft {
		s.why = fmt.Errorf("%d calls hang in the driver, so it is not opened again; restart the node: %w", n, context.DeadlineExceeded)
		s.alarms.raise("calls_hang", s.why.Error())
		return false
	}
	s.wait = min(max(2*s.wait, firstWait), lastWait)
	s.openAt = now.Add(s.wait)
	old := s.old
	s.old = nil
	s.probe = newProbe(func() found { return s.begin(old) })
	return true
}

// begin closes the session before, opens one and scans it. It runs in a probe.
func (s *Sampler) begin(old collector.Hardware) found {
	var closed error
	if old != nil {
		closed = old.Close()
	}
	h, err := s.cfg.Open()
	if err != nil {
		return found{err: errors.Join(err, closed)}
	}
	f := scan(h)
	if f.err != nil {
		f.err = errors.Join(f.err, h.Close())
	}
	return f
}

// Close ends the workers and the session. What hangs is waited for until the context ends, and then left to the end of the
// process, with its session; hung counts it.
func (s *Sampler) Close(ctx context.Context) (hung int, err error) {
	workers := slices.Concat(s.workers, s.left)
	for _, w := range workers {
		close(w.kick)
	}
	for _, w := range workers {
		if !w.gone(ctx.Done()) {
			hung++
		}
	}
	for _, p := range append(s.lost, s.probe) {
		if p == nil {
			continue
		}
		f, ok := p.await(ctx.Done())
		if !ok {
			hung++
		} else if s.session == nil {
			s.session = f.session
		}
	}
	for _, h := range []collector.Hardware{s.old, s.session} {
		if h != nil && hung == 0 {
			err = errors.Join(err, h.Close())
		}
	}
	s.workers, s.left, s.lost, s.probe, s.old, s.session = nil, nil, nil, nil, nil, nil
	return hung, err
}
