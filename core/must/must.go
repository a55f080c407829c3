package must

import "fmt"

// Failure is a broken assertion: a fault in this program, never in its input.
type Failure struct{ Message string }

func (f *Failure) Error() string { return "assertion broken: " + f.Message }

// True panics with a *Failure when ok is false. The message says what was expected and the values that broke it.
func True(ok bool, format string, args ...any) {
	if !ok {
		panic(&Failure{fmt.Sprintf(format, args...)})
	}
}

// Never panics with a *Failure: for branches that a closed list rules out.
func Never(format string, args ...any) { True(false, format, args...) }

// Recovered is for a deferred recover(): the broken assertion, or nil when nothing panicked. Any other panic goes on,
// because what the program did before it is unknown.
//
//	defer func() { failure = must.Recovered(recover()) }()
func Recovered(panicked any) *Failure {
	switch p := panicked.(type) {
	case nil:
		return nil
	case *Failure:
		return p
	default:
		panic(p)
	}
}

// Catch runs f and returns the assertion it broke, or nil.
func Catch(f func()) (failure *Failure) {
	defer func() { failure = Recovered(recover()) }()
	f()
	return nil
}
