//go:build !linux || !cgo

package nvml

import (
	"errors"
	"testing"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// TestBuildWithoutNVML: it says so, and what to do.
func TestBuildWithoutNVML(t *testing.T) {
	h, err := Open(Options{})
	var n *collector.NoAnswer
	if h != nil || !errors.Is(err, ErrNoNVML) || !errors.As(err, &n) || n.Reason != usage.ReasonNotSupported {
		t.Errorf("%v %v", h, err)
	}
}
