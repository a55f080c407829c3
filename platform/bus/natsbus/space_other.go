//go:build !linux && !darwin

package natsbus

import "errors"

// freeBytes is asked for a hint only.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
