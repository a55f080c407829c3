package live

import (
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// worker asks one unit, in a goroutine of its own, because a call into a driver can neither be cancelled nor bounded.
type worker struct {
	session collector.Hardware
	unit    collector.Unit
	name    string
	devices []string // what the unit should answer for
	stale   bool     // a scan came since; the devices are read again once the unit is idle
	kick    chan struct{}
	done    chan answer // has room for the one answer that may come, so that a worker never waits
	ended   chan struct{}
	busy    bool // kicked, and its answer not taken
	asked   bool // in this second
}

type answer struct {
	readings []collector.Reading
	err      error
}

func newWorker(session collector.Hardware, u collector.Unit) *worker {
	w := &worker{session: session, unit: u, name: u.Name(), kick: make(chan struct{}, 1), done: make(chan answer, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.ended)
	var into []collector.Reading
	for range w.kick {
		readings, err := w.unit.Sample(into[:0])
		into = readings
		w.done <- answer{readings, err}
	}
}

// ask kicks a worker that is idle. Its readings may be used up to the next ask.
func (w *worker) ask() {
	if w.asked = !w.busy; w.asked {
		w.busy = true
		w.kick <- struct{}{}
	}
}

// answered takes an answer that is there.
func (w *worker) answered() (a answer, ok bool) {
	if !w.busy {
		return answer{}, false
	}
	select {
	case a = <-w.done:
		w.busy = false
		return a, true
	default:
		return answer{}, false
	}
}

// await takes this second's answer, or nothing when expired comes first.
func (w *worker) await(expired <-chan struct{}) (a answer, ok bool) {
	if !w.asked {
		return answer{}, false
	}
	select {
	case a = <-w.done:
		w.busy = false
		return a, true
	case <-expired:
		return w.answered()
	}
}

// gone waits for the goroutine's end; false when expired comes first.
func (w *worker) gone(expired <-chan struct{}) bool {
	select {
	case <-w.ended:
		return true
	case <-expired:
	}
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// probe is one Scan, or the opening of a session with its first Scan, on its way in a goroutine of its own.
type probe struct {
	done  chan found
	ticks int // for which it was not there
}

// found is what a probe found.
type found struct {
	session  collector.Hardware
	units    []collector.Unit
	topology *usage.Topology
	err      error
}

func newProbe(ask func() found) *probe {
	p := &probe{done: make(chan found, 1)}
	go func() { p.done <- ask() }()
	return p
}

// await takes what was found, or nothing when expired comes first.
func (p *probe) await(expired <-chan struct{}) (f found, ok bool) {
	select {
	case f = <-p.done:
		return f, true
	case <-expired:
	}
	select {
	case f = <-p.done:
		return f, true
	default:
		return found{}, false
	}
}

// over is a wait that is over before it begins.
func over() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func scan(h collector.Hardware) found {
	units, err := h.Scan()
	if err != nil {
		return found{err: err}
	}
	t := h.Topology()
	return found{session: h, units: units, topology: &t}
}
