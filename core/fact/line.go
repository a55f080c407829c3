package fact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
)

// line is the JSON form of a fact: {"type":..., "key":..., "data":{...}}.
type line struct {
	Type Type            `json:"type"`
	Key  string          `json:"key"`
	Data json.RawMessage `json:"data"`
}

// DecodeLine reads one fact from its JSON line: unknown types, unknown fields and invalid values are errors that
// name the field and the remedy. The caller adds file and line.
func DecodeLine(data []byte) (Fact, error) {
	var l line
	if err := strict(data, &l); err != nil {
		return Fact{}, fmt.Errorf(`%w; a fact is {"type":"lease.started.v1","key":"...","data":{...}}`, err)
	}
	if name, twice := repeated(data); twice {
		return Fact{}, fmt.Errorf("%q is written twice; keep one of them", name)
	}
	body, ok := New(l.Type)
	if !ok {
		return Fact{}, fmt.Errorf("unknown fact type %q; docs/facts.md shows those that may be stated", l.Type)
	}
	if len(l.Data) == 0 {
		return Fact{}, fmt.Errorf("%s: data is missing", l.Type)
	}
	if err := strict(l.Data, body); err != nil {
		return Fact{}, fmt.Errorf("%s: data: %w", l.Type, err)
	}
	f := Fact{Key: l.Key, Hash: HashJSON(body), Body: body}
	if err := f.Validate(); err != nil {
		return Fact{}, err
	}
	return f, nil
}

// EncodeLine writes a fact as one JSON line without the line feed.
func EncodeLine(f Fact) ([]byte, error) {
	data, err := json.Marshal(f.Body)
	if err != nil {
		return nil, fmt.Errorf("write fact %s: %w", f.Key, err)
	}
	return json.Marshal(line{Type: f.Body.Type(), Key: f.Key, Data: data})
}

// strict decodes exactly one JSON value with known fields only.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return plain(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON value")
	}
	return nil
}

// repeated finds a name that an object in valid JSON holds twice: encoding/json would silently take the last.
func repeated(data []byte) (name string, twice bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var walk func() bool
	walk = func() bool {
		t, err := d.Token()
		open, isOpen := t.(json.Delim)
		if err != nil || !isOpen {
			return false
		}
		seen := map[string]bool{}
		for d.More() {
			if open == '{' {
				key, err := d.Token()
				name, _ = key.(string)
				if err != nil || seen[name] {
					return err == nil
				}
				seen[name] = true
			}
			if walk() {
				return true
			}
		}
		_, _ = d.Token() // what closes it
		return false
	}
	twice = walk()
	return name, twice
}

// plain says what a decoder found wrong to the person who wrote the line.
func plain(err error) error {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		what := "the value"
		if wrong.Field != "" {
			what = wrong.Field
		}
		return fmt.Errorf("%s is a JSON %s; write %s", what, wrong.Value, written(wrong.Type.Kind().String()))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends too early")
	}
	message := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(message, "unknown field "); ok {
		if near, ok := nearest.Of(strings.Trim(name, `"`), fieldNames()); ok {
			message += ", did you mean " + near + "?"
		}
	}
	return errors.New(message)
}

// fieldNames are the names that a line of a stated fact may hold, whatever its type.
func fieldNames() []string {
	return strings.Fields(`type key data at by note from to lease customer contract sku pricing_mode region service_tier dedicated labels devices node device
		count share_milli state saleable_milli document effective book index currency price meter resource quantity package purchase period_start
		public_key`)
}

// written is how a person writes a kind of Go value.
func written(kind string) string {
	switch kind {
	case "int64", "uint64", "int":
		return "a whole number of at most 18 digits"
	case "string":
		return "a text in quotes"
	case "bool":
		return "true or false"
	case "slice":
		return "a list in []"
	default:
		return "an object in {}"
	}
}
