package codec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for plain, want := range map[string]string{
		"":                    "",
		"c1/2026-03/1":        "c1/2026-03/1",
		"100% \"sure\"":       "100%25%20%22sure%22",
		"Euro € \U0001F600":   "Euro%20%E2%82%AC%20%F0%9F%98%80", // the example of CloudEvents HTTP binding 3.1.3.2
		"!~":                  "!~",
		"\u007f":              "%7F",
		"back\\slash,(round)": "back\\slash,(round)",
	} {
		if got := escape(plain); got != want {
			t.Errorf("escape(%q) = %q, want %q", plain, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "value")
		e := escape(want)
		if strings.ContainsFunc(e, func(r rune) bool { return r <= 0x20 || r >= 0x7f || r == '"' }) {
			t.Fatalf("escape(%q) = %q", want, e)
		}
		if got, err := unescape(e); err != nil || got != want {
			t.Fatalf("%q came back as %q, %v", want, got, err)
		}
	})
}

func TestUnescape(t *testing.T) {
	for raw, want := range map[string]string{
		"Euro%20%e2%82%ac": "Euro €",
		`"a b"`:            "a b",
		`"a \"b\" \\"`:     `a "b" \`,
		`"%41"`:            "A",
		`""`:               "",
		"a b":              "a b",
	} {
		if got, err := unescape(raw); err != nil || got != want {
			t.Errorf("unescape(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
	for raw, want := range map[string]string{
		"%":    "two hex digits",
		"%4":   "two hex digits",
		"%g0":  "two hex digits",
		"%0g":  "two hex digits",
		"%ff":  "not UTF-8",
		"\xff": "not UTF-8",
		`"a`:   "no closing quote",
		`"a"b`: "after its closing quote",
		`"a\`:  "ends in a backslash",
	} {
		if got, err := unescape(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("unescape(%q) = %q, %v; want an error about %q", raw, got, err, want)
		}
	}
}
