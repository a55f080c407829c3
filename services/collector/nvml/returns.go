//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// closedError is the answer to whoever still holds a unit of a closed session.
func closedError() error { return fmt.Errorf("the NVML session was closed: %w", collector.ErrSession) }

// trouble is what a return code says beyond the one value that was asked for. A higher one hides a lower one.
type trouble uint8

const (
	fine    trouble = iota
	changed         // the handle is another device's, or nobody's
	lost            // the whole GPU is out of reach
	session         // the driver has forgotten this process
)

// judge says why there is no value, and what that means beyond it. SUCCESS is no error and gets here by no way.
func judge(ret gonvml.Return) (usage.Reason, trouble) {
	switch ret {
	case gonvml.ERROR_UNINITIALIZED, gonvml.ERROR_DRIVER_NOT_LOADED, gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return usage.ReasonError, session
	case gonvml.ERROR_GPU_IS_LOST, gonvml.ERROR_RESET_REQUIRED, gonvml.ERROR_IRQ_ISSUE, gonvml.ERROR_GPU_NOT_FOUND:
		return usage.ReasonLost, lost
	case gonvml.ERROR_NOT_SUPPORTED, gonvml.ERROR_FUNCTION_NOT_FOUND, gonvml.ERROR_ARGUMENT_VERSION_MISMATCH, gonvml.ERROR_DEPRECATED:
		return usage.ReasonNotSupported, fine
	case gonvml.ERROR_NO_PERMISSION, gonvml.ERROR_OPERATING_SYSTEM:
		return usage.ReasonPermission, fine
	case gonvml.ERROR_NOT_FOUND, gonvml.ERROR_NO_DATA, gonvml.ERROR_NOT_READY:
		return usage.ReasonNotAvailable, fine
	case gonvml.ERROR_TIMEOUT:
		return usage.ReasonTimeout, fine
	default:
		return usage.ReasonError, fine
	}
}

// initError says what a person can do about a session that did not begin, and why nothing is seen.
func initError(path string, ret gonvml.Return) error {
	why, _ := judge(ret)
	hint := "look into the kernel's log for NVRM"
	switch ret { //nolint:exhaustive // the others have no remedy of their own
	case gonvml.ERROR_DRIVER_NOT_LOADED:
		why = usage.ReasonNotAvailable // there is none that could fail
		hint = "load the kernel module nvidia, or give a container its devices"
	case gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		hint = "library and driver are of two versions, as after an upgrade: restart the collector, and if that does not help the node"
	case gonvml.ERROR_NO_PERMISSION:
		hint = "give this user access to /dev/nvidiactl and /dev/nvidia0 and so on"
	case gonvml.ERROR_UNKNOWN:
		hint = "a container that has lost its /dev/nvidia* says this: restart it"
	}
	err := fmt.Errorf("begin a session of %s: %w (%d); %s: %w", path, ret, int32(ret), hint, collector.ErrSession)
	return &collector.NoAnswer{Reason: why, Err: err}
}

func scanError(ret gonvml.Return) error {
	err := fmt.Errorf("count the GPUs: %w (%d)", ret, int32(ret))
	if _, t := judge(ret); t == session {
		return errors.Join(err, collector.ErrSession)
	}
	return err
}

// Blanks of NVML and DCGM: the first of four in each width.
const (
	blank32   = 0x7ffffff0
	blank64   = 0x7ffffffffffffff0
	blankFP64 = 140737488355328.0
	blanks    = 4
)

func known32(v uint32) collector.Metric {
	if v >= blank32 && v < blank32+blanks || v == math.MaxUint32 {
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	return collector.Known(int64(v))
}

// known64 takes no value above the signed range either: no device counts so far, and the wire could not carry it.
func known64(v uint64) collector.Metric {
	if v >= blank64 {
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	return collector.Known(int64(v))
}

// maxPercent is where a number stops to be a percentage.
const maxPercent = 200

// percent rounds half up.
func percent(v float64) collector.Metric {
	if !(v >= 0 && v <= maxPercent) { // nor NaN, nor a blank
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	return collector.Known(min(int64(math.Floor(v+0.5)), 100))
}

// fieldValue decodes by the type that the driver gives.
func fieldValue(f *gonvml.FieldValue) collector.Metric {
	raw := binary.NativeEndian.Uint64(f.Value[:])
	switch gonvml.ValueType(f.ValueType) {
	case gonvml.VALUE_TYPE_UNSIGNED_INT:
		return known32(binary.NativeEndian.Uint32(f.Value[:]))
	case gonvml.VALUE_TYPE_UNSIGNED_LONG, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return known64(raw)
	case gonvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return known64(raw) // below zero is above the range
	case gonvml.VALUE_TYPE_SIGNED_INT:
		if v := binary.NativeEndian.Uint32(f.Value[:]); v <= math.MaxInt32 {
			return known32(v)
		}
	case gonvml.VALUE_TYPE_UNSIGNED_SHORT:
		return collector.Known(int64(binary.NativeEndian.Uint16(f.Value[:])))
	case gonvml.VALUE_TYPE_COUNT: // no type
	case gonvml.VALUE_TYPE_DOUBLE:
		if v := math.Float64frombits(raw); v >= 0 && v < blankFP64 {
			return collector.Known(int64(v))
		}
	}
	return collector.Unknown(usage.ReasonNotAvailable)
}

// plain makes a driver's text fit for the wire, which refuses a whole batch for a byte that is no text.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	for len(s) > usage.MaxNameBytes {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
