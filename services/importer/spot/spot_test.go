package spot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/services/importer/spot"
)

func history(entries ...string) string {
	return "{\n\"NextToken\": \"\",\n\"SpotPriceHistory\": [\n" + strings.Join(entries, ",\n") + "\n]\n}\n"
}

func entry(zone, price, at string) string {
	return fmt.Sprintf(`{"AvailabilityZone": "%s", "InstanceType": "p2.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "%s", "Timestamp": "%s"}`, zone, price, at)
}

func read(log string, histories ...string) (*spot.Import, error) {
	var files []spot.File
	for i, h := range histories {
		files = append(files, spot.File{Name: fmt.Sprintf("%d.json", i), Reader: strings.NewReader(h)})
	}
	return spot.Read(files, spot.File{Name: "log", Reader: strings.NewReader(log)})
}

// told is the facts in a few words each, and what was left.
func told(t *testing.T, im *spot.Import) (facts, left []string) {
	t.Helper()
	for _, f := range im.Facts {
		switch b := f.Body.(type) {
		case *fact.SpotPriceChanged:
			facts = append(facts, fmt.Sprintf("%s %s %s %s %s", b.At, b.Index, b.Region, b.Price, b.Currency))
		case *fact.LeaseStarted:
			facts = append(facts, fmt.Sprintf("%s %s %s %s %s %dx%d", b.At, b.Lease, b.SKU, b.Region, b.PricingMode, b.Count, b.ShareMilli))
		case *fact.LeaseStopped:
			facts = append(facts, fmt.Sprintf("%s %s by %s", b.At, b.Lease, b.By))
		}
		if f.Hash != fact.HashJSON(f.Body) {
			t.Errorf("%s: the hash is another statement's", f.Key)
		}
	}
	for _, l := range im.Left {
		left = append(left, l.String())
	}
	return facts, left
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestHistoriesBecomeTicks(t *testing.T) {
	im, err := read("",
		history(
			entry("a", "0.300000", "2020-03-01T03:00:00.000Z"),
			entry("a", "0.200000", "2020-03-01T02:00:00.900Z"), // newest first: this one was stated after the next
			entry("a", "0.250000", "2020-03-01T02:00:00.000Z"),
			entry("b", "0.2", "2020-03-01T02:30:00Z"),
			entry("a", "0.25", "2020-03-01T01:00:00Z"),
			strings.Replace(entry("a", "0.9", "2020-03-01T01:30:00Z"), "Linux/UNIX", "Windows", 1),
			entry("a", "-1", "2020-03-01T01:30:00Z"),
			entry("a", "1e999", "2020-03-01T01:30:00Z"),
			entry("a", "1", "yesterday"),
			entry("", "1", "2020-03-01T01:30:00Z"),
			entry(strings.Repeat("z", 300), "1", "2020-03-01T01:30:00Z"),
			`{"SpotPrice": 1}`, "7",
		),
		strings.Replace(history(entry("a", "0.300000", "2020-03-01T03:00:00Z"), entry("a", "0.26", "2020-03-01T02:30:00Z")), `""`, `"more"`, 1),
	)
	if err != nil {
		t.Fatal(err)
	}
	facts, left := told(t, im)
	same(t, "facts", []string{
		"2020-03-01T01:00:00Z p2.xlarge a 0.25/gpu-hour USD", "2020-03-01T02:00:00Z p2.xlarge a 0.20/gpu-hour USD",
		"2020-03-01T02:30:00Z p2.xlarge a 0.26/gpu-hour USD", "2020-03-01T02:30:00Z p2.xlarge b 0.20/gpu-hour USD",
		"2020-03-01T03:00:00Z p2.xlarge a 0.30/gpu-hour USD",
	}, facts)
	same(t, "left", []string{
		"0.json:6: the price is what it was", `0.json:9: the product is "Windows", not Linux/UNIX`, `0.json:10: price "-1/gpu-hour" is negative; write 0 or more`,
		`0.json:11: price "1e999" has an exponent outside -18 to 18`, `0.json:12: instant "yesterday" is not RFC 3339; write it like 2026-02-28T13:00:00Z`,
		"0.json:13: it names no instance type or no zone", "0.json:14: region has 300 bytes; at most 256 are allowed",
		"0.json:15: SpotPrice is a JSON number", "0.json:16: the entry is a JSON number",
		"1.json:2: the history goes on in another file, which is not named here", "1.json:4: the price is what it was",
	}, left)
	same(t, "counts", []int{15, 5, 0}, []int{im.Entries, im.Ticks, im.Leases})
}

// Two prices of one second are two statements, the one that holds behind the other.
func TestTwoPricesOfOneSecond(t *testing.T) {
	im, err := read("", history(entry("a", "0.2", "2020-03-01T02:00:00Z"), entry("a", "0.1", "2020-03-01T02:00:00Z")))
	if err != nil {
		t.Fatal(err)
	}
	facts, _ := told(t, im)
	same(t, "facts", []string{"2020-03-01T02:00:00Z p2.xlarge a 0.10/gpu-hour USD", "2020-03-01T02:00:00Z p2.xlarge a 0.20/gpu-hour USD"}, facts)
	same(t, "keys", []string{"spot/p2.xlarge/a/2020-03-01T02:00:00Z", "spot/p2.xlarge/a/2020-03-01T02:00:00Z/2"}, []string{im.Facts[0].Key, im.Facts[1].Key})
}

func TestPollsBecomeLeases(t *testing.T) {
	log := `[2020-03-01T08:00:00.000Z] Created instance i-1 with 1 GPU(s) of type v100 in zone a
[2020-03-01T08:00:30.000Z] Created instance i-2 with 8 GPU(s) of type k80 in zone b
[2020-03-01T08:00:40.000Z] Created instance i-3 with 8 GPU(s) of type v100 in zone a
[2020-03-01T08:00:50.000Z] Created instance i-4 with 1 GPU(s) of type k80 in zone a
[2020-03-01T08:01:00.000Z] Created instance i-5 with 2 GPU(s) of type v100 in zone a
[2020-03-01T08:01:10.000Z] Created instance i-1 with 8 GPU(s) of type v100 in zone a
[2020-03-01T08:02:00.000Z] Instance with 8 GPU(s) of type k80 creation failed
[2020-03-01T08:10:00.999Z] Instance i-1 running in zone a
[2020-03-01T08:10:01.000Z] Instance i-2 running in zone b
[2020-03-01T08:10:02.000Z] Instance i-3 not running in zone a
[2020-03-01T08:10:03.000Z] Instance i-5 running in zone a
[2020-03-01T08:20:00.000Z] Instance i-1 running in zone b
[2020-03-01T08:20:01.000Z] Instance i-2 not running in zone b
[2020-03-01T08:20:02.000Z] Successfully deleted instance i-2
[2020-03-01T08:30:00.000Z] Instance i-2 running in zone b
[2020-03-01T08:05:00.000Z] Instance i-1 running in zone a
Instance i-1 running in zone a
[2020-03-01T08:40:00.000Z] Instance i-1 on fire in zone a
`
	im, err := read(log)
	if err != nil {
		t.Fatal(err)
	}
	facts, left := told(t, im)
	same(t, "facts", []string{
		"2020-03-01T08:00:00Z i-1 p3.2xlarge a spot 1x1000", "2020-03-01T08:00:30Z i-2 p2.8xlarge b spot 1x1000",
		"2020-03-01T08:00:40Z i-3 p3.16xlarge a spot 1x1000", "2020-03-01T08:00:40Z i-3 by provider",
		"2020-03-01T08:10:00Z i-1 by customer", "2020-03-01T08:10:01Z i-2 by provider",
	}, facts)
	same(t, "left", []string{
		"log:4: no poll speaks of the instance, so its end is not known", "log:5: no instance type has 2 GPUs of type v100",
		"log:6: the instance was created at line 1", "log:7: nothing was created", "log:11: the instance has no lease: no creation of it was taken",
		"log:12: the instance was created in zone a", "log:14: a deletion ends no lease: the last poll before it did", "log:15: the instance was gone at line 13",
		"log:16: it speaks of a time before the line in front of it", "log:17: it begins with no instant in brackets", "log:18: it is no line of an availability log",
	}, left)
	same(t, "counts", []int{18, 3, 2}, []int{im.Lines, im.Leases, im.Reclaimed})
}

// FuzzRead: no input panics, and each entry and line is counted once: a tick, a lease, or left.
func FuzzRead(f *testing.F) {
	f.Add(history(entry("a", "0.3", "2020-03-01T03:00:00Z")), "[2020-03-01T08:00:00Z] Created instance i with 1 GPU(s) of type k80 in zone a\n[2020-03-01T08:10:00Z] Instance i running in zone a\n")
	f.Add(`{"SpotPriceHistory": [{"InstanceType": 7}, [], null]}`, "[2020-03-01T08:00:00Z] Instance i not running in zone a\n")
	f.Fuzz(func(t *testing.T, prices, log string) {
		im, err := read(log, prices)
		if err != nil {
			return
		}
		if im.Ticks+2*im.Leases != len(im.Facts) || im.Ticks > im.Entries || im.Leases > im.Lines || len(im.Left) > im.Entries+im.Lines+1 {
			t.Fatalf("%d facts, %d left: %+v", len(im.Facts), len(im.Left), im)
		}
	})
}

func TestFilesThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "0.json:1: the JSON ends too early",
		"[]":                                    "0.json:1: { is expected, not [",
		"{\n}\n":                                "there is no SpotPriceHistory; this is no price history",
		"{\n\"SpotPriceHistory\": {":            "0.json:2: [ is expected, not {",
		strings.TrimSuffix(history(), "]\n}\n"): "the JSON ends too early",
	} {
		if _, err := read("", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q", text, err, want)
		}
	}
	if _, err := read(strings.Repeat("x", 1<<20)); err == nil || !strings.Contains(err.Error(), "read log: ") {
		t.Errorf("a line of a megabyte: %v", err)
	}
}
