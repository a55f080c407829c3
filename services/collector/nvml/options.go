package nvml

import (
	"cmp"
	"time"
)

// Options of a session. The zero value is right for a node with a driver.
type Options struct {
	LibraryPath string        // of libnvidia-ml.so.1; empty: as the loader finds it
	ScanWait    time.Duration // how long a Scan waits for a GPU that does not answer; 2 s
	EventWait   time.Duration // of one wait for events, which is how long an orderly Close takes at most; 1 s
	CloseWait   time.Duration // how long Close waits for calls to come back; 3 s

	now func() time.Time // of tests: GPM measures between two instants
}

func (o Options) filled() Options {
	o.LibraryPath = cmp.Or(o.LibraryPath, "libnvidia-ml.so.1")
	o.ScanWait = cmp.Or(o.ScanWait, 2*time.Second)
	o.EventWait = cmp.Or(o.EventWait, time.Second)
	o.CloseWait = cmp.Or(o.CloseWait, 3*time.Second)
	if o.now == nil {
		o.now = time.Now
	}
	return o
}
