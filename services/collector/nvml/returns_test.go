//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// TestFieldValues decodes each type that a driver may give, and its blanks.
func TestFieldValues(t *testing.T) {
	blank := collector.Unknown(usage.ReasonNotAvailable)
	for _, c := range []struct {
		kind gonvml.ValueType
		raw  uint64
		want collector.Metric
	}{
		{gonvml.VALUE_TYPE_UNSIGNED_INT, 7, collector.Known(7)},
		{gonvml.VALUE_TYPE_UNSIGNED_INT, 0x7ffffff1, blank},
		{gonvml.VALUE_TYPE_UNSIGNED_INT, math.MaxUint32, blank},
		{gonvml.VALUE_TYPE_UNSIGNED_LONG, 1 << 40, collector.Known(1 << 40)},
		{gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 0x7fffffffffffffef, collector.Known(0x7fffffffffffffef)},
		{gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 0x7ffffffffffffff3, blank},
		{gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, math.MaxUint64, blank},
		{gonvml.VALUE_TYPE_SIGNED_LONG_LONG, 9, collector.Known(9)},
		{gonvml.VALUE_TYPE_SIGNED_LONG_LONG, math.MaxUint64, blank}, // -1
		{gonvml.VALUE_TYPE_SIGNED_INT, 9, collector.Known(9)},
		{gonvml.VALUE_TYPE_SIGNED_INT, math.MaxUint32, blank}, // -1
		{gonvml.VALUE_TYPE_SIGNED_INT, 0x7ffffff0, blank},
		{gonvml.VALUE_TYPE_UNSIGNED_SHORT, 300, collector.Known(300)},
		{gonvml.VALUE_TYPE_DOUBLE, math.Float64bits(12.9), collector.Known(12)},
		{gonvml.VALUE_TYPE_DOUBLE, math.Float64bits(blankFP64 + 2), blank},
		{gonvml.VALUE_TYPE_DOUBLE, math.Float64bits(math.NaN()), blank},
		{gonvml.VALUE_TYPE_DOUBLE, math.Float64bits(-1), blank},
		{gonvml.ValueType(99), 1, blank},
	} {
		f := gonvml.FieldValue{ValueType: uint32(c.kind)}
		binary.NativeEndian.PutUint64(f.Value[:], c.raw)
		if got := fieldValue(&f); got != c.want {
			t.Errorf("type %d of %#x is %+v, want %+v", c.kind, c.raw, got, c.want)
		}
	}
}

// TestPercent rounds half up and takes no blank for a percentage.
func TestPercent(t *testing.T) {
	for in, want := range map[float64]int64{0: 0, 0.49: 0, 0.5: 1, 99.5: 100, 100: 100, 101.2: 100, 200: 100, 200.1: -1, -0.1: -1, blankFP64: -1} {
		if m := percent(in); m.Read() != (want >= 0) || m.Read() && m.Value != want {
			t.Errorf("%v is %+v", in, m)
		}
	}
	if m := percent(math.NaN()); m.Read() {
		t.Errorf("NaN is %+v", m)
	}
}

// TestReasons holds every return code of the header: none is a value, and what is not named is an error.
func TestReasons(t *testing.T) {
	type answer struct {
		why  usage.Reason
		more trouble
	}
	named := map[gonvml.Return]answer{
		1: {usage.ReasonError, session}, 9: {usage.ReasonError, session}, 18: {usage.ReasonError, session},
		11: {usage.ReasonLost, lost}, 15: {usage.ReasonLost, lost}, 16: {usage.ReasonLost, lost}, 28: {usage.ReasonLost, lost},
		3: {usage.ReasonNotSupported, fine}, 13: {usage.ReasonNotSupported, fine}, 25: {usage.ReasonNotSupported, fine}, 26: {usage.ReasonNotSupported, fine},
		4: {usage.ReasonPermission, fine}, 17: {usage.ReasonPermission, fine},
		6: {usage.ReasonNotAvailable, fine}, 21: {usage.ReasonNotAvailable, fine}, 27: {usage.ReasonNotAvailable, fine},
		10: {usage.ReasonTimeout, fine},
	}
	for code := gonvml.Return(1); code <= 1000; code++ {
		want, ok := named[code]
		if !ok {
			want = answer{usage.ReasonError, fine}
		}
		if why, more := judge(code); why != want.why || more != want.more {
			t.Errorf("code %d is reason %d and trouble %d, want %+v", code, why, more, want)
		}
	}
}

// TestPlain: what goes on the wire is short text.
func TestPlain(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for in, want := range map[string]string{"  A100\n": "A100", "a\x00b\xffc": "abc", long: long[:usage.MaxNameBytes]} {
		if got := plain(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
