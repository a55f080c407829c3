package fact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
	body, ok := New(l.Type)
	if !ok {
		return Fact{}, fmt.Errorf("unknown fact type %q; docs/format.md lists the types", l.Type)
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
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON value")
	}
	return nil
}
