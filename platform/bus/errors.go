package bus

import (
	"errors"
	"fmt"
)

// Errors of a Bus; compare with errors.Is.
var (
	ErrNotFound  = errors.New("no message on this subject")
	ErrConflict  = errors.New("the subject's last message is not the expected one")
	ErrAmbiguous = errors.New("outcome unknown: read the subject's last message before publishing again")
	ErrTooLarge  = errors.New("too large for the log")
	ErrFull      = errors.New("the log's store is full: nothing was stored; add room or raise its limit")
	ErrDenied    = errors.New("not allowed: nothing was stored or read")
	ErrGap       = errors.New("messages are missing from the stream")
	ErrInvalid   = errors.New("invalid request")
	ErrClosed    = errors.New("bus is closed")
)

// ConflictError is an expectation that did not hold. Nothing was stored.
type ConflictError struct {
	Subject  string // empty when the server did not say which message of a batch it refused
	Expected uint64
	Actual   *uint64 // nil when not known
}

func (e *ConflictError) Error() string {
	switch {
	case e.Subject == "":
		return ErrConflict.Error()
	case e.Actual == nil:
		return fmt.Sprintf("%s: %s: expected %d", e.Subject, ErrConflict, e.Expected)
	default:
		return fmt.Sprintf("%s: %s: expected %d, found %d", e.Subject, ErrConflict, e.Expected, *e.Actual)
	}
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// GapError is a read whose position lies before the messages that are left: they were archived, or
// the store lost them. The caller decides; going on at Next-1 skips what is missing.
type GapError struct {
	Stream string
	After  uint64 // where the read began
	Next   uint64 // the first sequence there is above After
}

func (e *GapError) Error() string {
	return fmt.Sprintf("read %s after %d: %s: the next one is %d", e.Stream, e.After, ErrGap, e.Next)
}

// Is reports whether target is ErrGap.
func (e *GapError) Is(target error) bool { return target == ErrGap }
