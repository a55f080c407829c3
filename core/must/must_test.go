package must_test

import (
	"errors"
	"testing"

	"github.com/gpuhour/gpuhour/core/must"
)

func TestTrue(t *testing.T) {
	if f := must.Catch(func() { must.True(1 < 2, "unused") }); f != nil {
		t.Fatalf("a true assertion failed: %v", f)
	}
	f := must.Catch(func() { must.True(false, "quantity %d is negative", -1) })
	if f == nil || f.Error() != "assertion broken: quantity -1 is negative" {
		t.Fatalf("got %v", f)
	}
	if f := must.Catch(func() { must.Never("mode %q", "x") }); f == nil || f.Message != `mode "x"` {
		t.Fatalf("got %v", f)
	}
}

func TestFailureIsAnError(t *testing.T) {
	var err error = must.Catch(func() { must.Never("boom") })
	var f *must.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v is not a *must.Failure", err)
	}
}

func TestCatchPassesOtherPanicsOn(t *testing.T) {
	defer func() {
		if p := recover(); p != "other" {
			t.Fatalf("recovered %v, want the original panic", p)
		}
	}()
	must.Catch(func() { panic("other") })
	t.Fatal("the panic was swallowed")
}
