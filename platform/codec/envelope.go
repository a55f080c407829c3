package codec

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// The CloudEvents attributes of a fact in binary mode (CloudEvents NATS binding, 3.1).
const (
	headerSpec    = "ce-specversion"
	headerID      = bus.HeaderID
	headerSource  = "ce-source"
	headerType    = "ce-type"
	headerSubject = "ce-subject"
	headerContent = "ce-datacontenttype"

	specVersion = "1.0"
	source      = "/gpuhour"
	contentType = "application/protobuf"
)

func envelope(f fact.Fact) map[string]string {
	return map[string]string{
		headerSpec:    specVersion,
		headerID:      escape(f.Key),
		headerSource:  source,
		headerType:    string(f.Body.Type()),
		headerSubject: escape(f.Body.Entity()),
		headerContent: contentType,
	}
}

// attributes reads the headers of a fact whatever the case of their names; NATS keeps the case it was given. Headers
// outside ce- and further attributes are allowed and mean nothing here.
func attributes(header map[string]string) (map[string]string, error) {
	all := make(map[string]string, len(header))
	for name, raw := range header {
		folded := strings.ToLower(name)
		if !strings.HasPrefix(folded, "ce-") {
			continue
		}
		value, err := unescape(raw)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", folded, err)
		}
		if _, twice := all[folded]; twice {
			return nil, fmt.Errorf("header %s is there twice, in different cases", folded)
		}
		all[folded] = value
	}
	for _, want := range [][2]string{{headerSpec, specVersion}, {headerContent, contentType}} {
		if got := all[want[0]]; got != want[1] {
			return nil, fmt.Errorf("header %s is %q; it is %s", want[0], got, want[1])
		}
	}
	for _, name := range []string{headerID, headerSource, headerType, headerSubject} {
		if all[name] == "" {
			return nil, fmt.Errorf("header %s is missing", name)
		}
	}
	return all, nil
}

// escape writes everything outside U+0021 to U+007E, the quote and the percent sign as percent and upper-case hex of
// its UTF-8 bytes (CloudEvents NATS binding, 3.1.3.2).
func escape(v string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(v) {
		c := v[i]
		if c > 0x20 && c < 0x7f && c != '"' && c != '%' {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

// unescape reads what escape writes, and also quoted values and lower-case hex, as the binding asks of readers.
func unescape(v string) (string, error) {
	if strings.HasPrefix(v, `"`) {
		unquoted, err := unquote(v)
		if err != nil {
			return "", err
		}
		v = unquoted
	}
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] != '%' {
			b = append(b, v[i])
			continue
		}
		if i+2 >= len(v) || digit(v[i+1]) > 15 || digit(v[i+2]) > 15 {
			return "", fmt.Errorf("%q has a percent sign without two hex digits", v)
		}
		b = append(b, digit(v[i+1])<<4|digit(v[i+2]))
		i += 2
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("%q is not UTF-8", v)
	}
	return string(b), nil
}

// unquote takes the quotes off; inside, a backslash stands before the character it guards.
func unquote(v string) (string, error) {
	b := make([]byte, 0, len(v))
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '"':
			if i != len(v)-1 {
				return "", fmt.Errorf("%q goes on after its closing quote", v)
			}
			return string(b), nil
		case '\\':
			if i++; i == len(v) {
				return "", errors.New("a quoted value ends in a backslash")
			}
		}
		b = append(b, v[i])
	}
	return "", fmt.Errorf("%q has no closing quote", v)
}

// digit is the value of a hex digit, or 255.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 255
	}
}
