//go:build !linux || !cgo

package nvml

import (
	"errors"
	"testing"
)

// TestBuildWithoutNVML: it says so, and what to do.
func TestBuildWithoutNVML(t *testing.T) {
	if h, err := Open(Options{}); h != nil || !errors.Is(err, ErrNoNVML) {
		t.Errorf("%v %v", h, err)
	}
}
