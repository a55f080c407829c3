//go:build !linux || !cgo

package nvml

import (
	"errors"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// ErrNoNVML is the answer of a build that cannot load the driver's library.
var ErrNoNVML = errors.New("this build has no NVML: build gpuhour on Linux with CGO_ENABLED=1 and a C compiler," +
	" or run dcgm-exporter and use the exporter source")

// Open fails with ErrNoNVML.
func Open(o Options) (collector.Hardware, error) {
	_ = o.filled()
	return nil, &collector.NoAnswer{Reason: usage.ReasonNotSupported, Err: ErrNoNVML}
}
