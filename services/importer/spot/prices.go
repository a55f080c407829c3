package spot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// What a history must say of an entry, and what it means by a price.
const (
	Product  = "Linux/UNIX"
	Currency = "USD"
	unit     = "/gpu-hour"
)

// MaxFileBytes bounds a file.
const MaxFileBytes = 64 << 20

// File is an input and its name in reports.
type File struct {
	Name string
	io.Reader
}

// entry is an entry of a history. Fields that are not named here are not looked at.
type entry struct {
	AvailabilityZone, InstanceType, ProductDescription, SpotPrice, Timestamp string

	file, line int
	at         span.Second
	price      string
	broken     string // why it cannot be read at all
}

// ticks turns the entries of all histories into ticks.
func (im *Import) ticks(histories []File) error {
	var entries []entry
	for i, f := range histories {
		list, err := im.history(i, f)
		if err != nil {
			return err
		}
		entries = append(entries, list...)
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.AvailabilityZone, b.AvailabilityZone), cmp.Compare(a.at, b.at),
			cmp.Compare(a.file, b.file), cmp.Compare(b.line, a.line))
	})
	same := 1 // how many ticks of one place stand in one second
	var last entry
	for _, e := range entries {
		placed := e.InstanceType == last.InstanceType && e.AvailabilityZone == last.AvailabilityZone
		if placed && e.price == last.price {
			im.leave(histories[e.file].Name, e.line, "the price is what it was")
			continue
		}
		key := "spot/" + e.InstanceType + "/" + e.AvailabilityZone + "/" + e.at.String()
		if placed && e.at == last.at {
			same++
			key += fmt.Sprint("/", same)
		} else {
			same = 1
		}
		last = e
		im.Ticks++
		im.add(e.at, rankTick, key, &fact.SpotPriceChanged{Index: e.InstanceType, Region: e.AvailabilityZone, At: e.at, Currency: Currency, Price: e.price})
	}
	return nil
}

// history reads one file: an object with a list SpotPriceHistory.
func (im *Import) history(number int, f File) ([]entry, error) {
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	}
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("read %s: it has more than %d bytes; give it in parts", f.Name, MaxFileBytes)
	}
	h := &historyReader{data: data, json: json.NewDecoder(bytes.NewReader(data)), line: 1}
	var out []entry
	err = h.each(func(e entry) {
		im.Entries++
		e.file = number
		if why := e.read(); why != "" {
			im.leave(f.Name, e.line, why)
			return
		}
		out = append(out, e)
	})
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", f.Name, h.at(), err)
	}
	if h.goesOn > 0 {
		im.leave(f.Name, h.goesOn, "the history goes on in another file, which is not named here")
	}
	return out, nil
}

// read fills in what the texts mean, or says why the entry is no tick.
func (e *entry) read() (why string) {
	if e.broken != "" {
		return e.broken
	}
	if e.ProductDescription != Product {
		return fmt.Sprintf("the product is %.40q, not %s", e.ProductDescription, Product)
	}
	if e.InstanceType == "" || e.AvailabilityZone == "" {
		return "it names no instance type or no zone"
	}
	price, err := contract.ParsePrice(e.SpotPrice + unit)
	if err != nil {
		return err.Error()
	}
	if e.at, err = span.Parse(e.Timestamp); err != nil {
		return err.Error()
	}
	e.price = price.Text(Currency)
	tick := fact.SpotPriceChanged{Index: e.InstanceType, Region: e.AvailabilityZone, At: e.at, Currency: Currency, Price: e.price}
	if err := tick.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

// historyReader walks over the entries and keeps count of lines.
type historyReader struct {
	data []byte
	json *json.Decoder
	done int // bytes of data whose lines are counted
	line int
	// goesOn is the line that says so, or 0.
	goesOn int
}

// at is the line on which the next value starts.
func (h *historyReader) at() int {
	to := int(h.json.InputOffset())
	for to < len(h.data) && bytes.IndexByte([]byte(" \t\r\n,:"), h.data[to]) >= 0 {
		to++
	}
	h.line += bytes.Count(h.data[h.done:to], []byte{'\n'})
	h.done = to
	return h.line
}

func (h *historyReader) each(take func(entry)) error {
	if err := h.open('{'); err != nil {
		return err
	}
	found := false
	for h.json.More() {
		key, err := h.json.Token()
		if err != nil {
			return plain(err)
		}
		if key != "SpotPriceHistory" {
			var other json.RawMessage
			line := h.at()
			if err := h.json.Decode(&other); err != nil {
				return plain(err)
			}
			if key == "NextToken" && len(other) > len(`""`) {
				h.goesOn = line
			}
			continue
		}
		found = true
		if err := h.list(take); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("there is no SpotPriceHistory; this is no price history")
	}
	_, err := h.json.Token()
	return plain(err)
}

func (h *historyReader) list(take func(entry)) error {
	if err := h.open('['); err != nil {
		return err
	}
	for h.json.More() {
		e := entry{line: h.at()}
		var wrong *json.UnmarshalTypeError
		if err := h.json.Decode(&e); errors.As(err, &wrong) { // the decoder stands behind the entry all the same
			e.broken = cmp.Or(wrong.Field, "the entry") + " is a JSON " + wrong.Value
		} else if err != nil {
			return plain(err)
		}
		take(e)
	}
	_, err := h.json.Token()
	return plain(err)
}

func (h *historyReader) open(want json.Delim) error {
	t, err := h.json.Token()
	if err != nil {
		return plain(err)
	}
	if t != want {
		return fmt.Errorf("%s is expected, not %v", want, t)
	}
	return nil
}

// plain says an end in the middle in words.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends too early")
	}
	return err
}
