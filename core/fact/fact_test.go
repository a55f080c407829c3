package fact

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The list of types in fact.go, New and the samples are one closed list.
func TestClosedList(t *testing.T) {
	seen := map[Type]bool{}
	for _, b := range samples() {
		if seen[b.Type()] {
			t.Errorf("type %s has two samples", b.Type())
		}
		seen[b.Type()] = true
		fresh, ok := New(b.Type())
		if !ok || fresh.Type() != b.Type() {
			t.Errorf("New(%s) = %T, %t", b.Type(), fresh, ok)
		}
		if err := b.Validate(); err != nil {
			t.Errorf("sample %s: %v", b.Type(), err)
		}
		if err := fresh.Validate(); err == nil {
			t.Errorf("an empty %s is valid", b.Type())
		}
		if b.Entity() == "" {
			t.Errorf("%s names no entity", b.Type())
		}
	}
	if b, ok := New("lease.started.v2"); ok {
		t.Errorf("New of an unknown type gave %T", b)
	}
	if len(seen) != 28 {
		t.Errorf("%d types have a sample, want 28", len(seen))
	}
}

func TestLineRoundTrip(t *testing.T) {
	for _, b := range samples() {
		t.Run(string(b.Type()), func(t *testing.T) {
			want := Fact{Key: "k/" + b.Entity(), Hash: HashJSON(b), Body: b}
			line, err := EncodeLine(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeLine(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("line %s (-want +got):\n%s", line, diff)
			}
		})
	}
}

func TestLineErrors(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"no JSON", `cut`, "a fact is {"},
		{"unknown field", `{"type":"cut.requested.v1","key":"k","data":{},"note":1}`, `unknown field "note"`},
		{"unknown type", `{"type":"cut.requested.v2","key":"k","data":{}}`, `unknown fact type "cut.requested.v2"; docs/facts.md`},
		{"no key", `{"type":"cut.requested.v1","data":{"cut":"m","at":"2026-03-01T00:00:00Z"}}`, "key is missing; the key names the statement"},
		{"long key", `{"type":"cut.requested.v1","key":"` + strings.Repeat("k", 1025) + `","data":{"cut":"m","at":"2026-03-01T00:00:00Z"}}`, "key has 1025 bytes"},
		{"no data", `{"type":"cut.requested.v1","key":"k"}`, "cut.requested.v1: data is missing"},
		{"null data", `{"type":"cut.requested.v1","key":"k","data":null}`, "cut is missing"},
		{"misspelt field", `{"type":"lease.stopped.v1","key":"k","data":{"lese":"L1"}}`, `data: unknown field "lese", did you mean lease?`},
		{"misspelt field of a device", `{"type":"lease.resized.v1","key":"k","data":{"lease":"L1","devices":[{"nod":"n1"}]}}`, `unknown field "nod", did you mean node?`},
		{"misspelt field of the line", `{"type":"lease.stopped.v1","key":"k","dat":{}}`, `unknown field "dat", did you mean data?`},
		{"unknown field of data", `{"type":"cut.requested.v1","key":"k","data":{"cut":"m","when":1}}`, `data: unknown field "when"`},
		{"name written twice", `{"type":"cut.requested.v1","key":"k","key":"l","data":{"cut":"m"}}`, `"key" is written twice; keep one of them`},
		{"name written twice inside", `{"type":"lease.resized.v1","key":"k","data":{"lease":"L1","devices":[{"node":"a","node":"b"}]}}`, `"node" is written twice`},
		{"not JSON", `cut`, `not JSON at byte 1: invalid character 'c'`},
		{"cut off", `{"type":"cut.requested.v1","key":"k","data":{`, `the JSON ends too early`},
		{"giant number", `{"type":"lease.resized.v1","key":"k","data":{"lease":"L1","count":1e30}}`, `data: count is a JSON number 1e30; write a whole number of at most 18 digits`},
		{"number for text", `{"type":"lease.resized.v1","key":"k","data":{"lease":1}}`, `data: lease is a JSON number; write a text in quotes`},
		{"text for a list", `{"type":"lease.resized.v1","key":"k","data":{"devices":"GPU-1"}}`, `data: devices is a JSON string; write a list in []`},
		{"text for a flag", `{"type":"lease.started.v1","key":"k","data":{"dedicated":"yes"}}`, `data: dedicated is a JSON string; write true or false`},
		{"list for data", `{"type":"cut.requested.v1","key":"k","data":[]}`, `data: the value is a JSON array; write an object in {}`},
		{"bad instant", `{"type":"cut.requested.v1","key":"k","data":{"cut":"m","at":"2026-03-01"}}`, "write it like 2026-02-28T13:00:00Z"},
		{"invalid", `{"type":"cut.requested.v1","key":"k","data":{"cut":"m"}}`, "cut.requested.v1: at is missing"},
		{"nothing saleable", `{"type":"device.declared.v1","key":"k","data":{"device":"GPU-1","at":"2026-03-01T00:00:00Z","saleable_milli":0}}`, "device.declared.v1: saleable_milli is 0; it goes from 1 to 64000"},
		{"two values", `{"type":"cut.requested.v1","key":"k","data":{"cut":"m","at":"2026-03-01T00:00:00Z"}} 7`, "something follows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := DecodeLine([]byte(tt.line))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
			if f.Body != nil {
				t.Errorf("a refused line gave %+v", f)
			}
		})
	}
}

// TestFieldNamesAreWhole: every field of a fact that people state can be suggested.
func TestFieldNamesAreWhole(t *testing.T) {
	known := fieldNames()
	var check func(of reflect.Type)
	check = func(of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !slices.Contains(known, name) {
				t.Errorf("%s of %s is not among the names", name, of)
			}
			if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct {
				check(field.Type.Elem())
			}
		}
	}
	for _, b := range samples() {
		if decided := slices.Contains([]Type{
			TypeClockDeclared, TypeTimeResumed, TypeCustomerHalted, TypeCutRequested, TypeCutDone, TypePeriodClosed, TypeInvoiceIssued, TypeInvoiceRecovered,
			TypeLogRecovered, TypeAlertRaised, TypeAlertResolved,
		}, b.Type()); !decided {
			check(reflect.TypeOf(b).Elem())
		}
	}
}

func TestHash(t *testing.T) {
	// SHA-256 of "cut.done.v1", a zero byte and "ab", from another implementation (sha256sum).
	text, err := HashBytes(TypeCutDone, []byte("ab")).MarshalText()
	if want := "230aff1c47192f91b20175cb7792b9f036926c788029502f5f80cfa7c0186129"; err != nil || string(text) != want {
		t.Errorf("hash %s, %v; want %s", text, err, want)
	}
	if HashBytes(TypeCutDone, nil) == HashBytes(TypeCutRequested, nil) {
		t.Error("the type is not part of the hash")
	}
	rapid.Check(t, func(t *rapid.T) {
		want := HashBytes(TypeCutDone, rapid.SliceOf(rapid.Byte()).Draw(t, "data"))
		text, _ := want.MarshalText()
		var got Hash
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%s came back as %x, %v", text, got, err)
		}
	})
	var h Hash
	for _, bad := range []string{"", "ab", strings.Repeat("g", 64)} {
		if err := h.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("hash %q was read", bad)
		}
	}
}

func FuzzDecodeLine(f *testing.F) {
	for _, b := range samples() {
		line, err := EncodeLine(Fact{Key: "k", Body: b})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		want, err := DecodeLine(line)
		if err != nil {
			return
		}
		again, err := EncodeLine(want)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		got, err := DecodeLine(again)
		if err != nil {
			t.Fatalf("written as %s but not read again: %v", again, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("written as %s (-want +got):\n%s", again, diff)
		}
	})
}
