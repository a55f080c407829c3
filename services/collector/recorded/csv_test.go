package recorded_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
)

const recording = recorded.Header + "\n0,g0,50,1024,70000,1\n0,g1,,2048,,\n2,g0,51,1024,70000,2\n"

func TestRecordingIsPlayedFromItsStartAndAgain(t *testing.T) {
	rec, err := recorded.ReadCSV("r.csv", strings.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	const start span.Second = 1_767_225_600
	src := rec.From(start, true)
	for round := range span.Second(2) {
		from := start + 3*round
		got, err := src.Sample(from, nil)
		if err != nil || len(got) != 2 || got[0].Busy != collector.Known(50) || got[1].Busy.Read() || got[1].Memory != collector.Known(2048) {
			t.Fatalf("round %d second 0: %+v, %v", round, got, err)
		}
		if _, err := src.Sample(from+1, nil); !errors.Is(err, collector.ErrSlept) {
			t.Fatalf("second 1 was not recorded: %v", err)
		}
		if got, err := src.Sample(from+2, nil); err != nil || len(got) != 1 || got[0].Energy != collector.Known(2) {
			t.Fatalf("second 2: %+v, %v", got, err)
		}
	}
	if _, err := rec.From(start, false).Sample(start+3, nil); !errors.Is(err, collector.ErrSlept) {
		t.Fatalf("after the end without a loop: %v", err)
	}
}

// TestARecordingOfASpreadsheet begins with the mark of UTF-8, and its lines end with CR LF.
func TestARecordingOfASpreadsheet(t *testing.T) {
	rec, err := recorded.ReadCSV("r.csv", strings.NewReader("\ufeff"+strings.ReplaceAll(recording, "\n", "\r\n")))
	if err != nil || rec.Seconds != 3 {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestBadRecordingsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"second,device\n":                                   "r.csv:1:",
		strings.Repeat("0", 1<<17):                          "r.csv:1: a recording is text",
		recorded.Header + "\n" + strings.Repeat("0", 1<<21): "a line is longer than 1048576 bytes",
		recorded.Header + "\n":                              "holds no second",
		recorded.Header + "\n-1,g,1,1,1,1\n":                "r.csv:2: second",
		recorded.Header + "\n0,,1,1,1,1\n":                  "r.csv:2: the device",
		recorded.Header + "\n0,g,101,,,\n":                  "r.csv:2: busy_percent",
		recorded.Header + "\n0,g,1.5,,,\n":                  "r.csv:2: busy_percent",
		recorded.Header + "\n0,g,1,,,\n0,g,2,,,\n":          "r.csv:3: device g",
		recorded.Header + "\n0,g,1\n":                       "r.csv:2: 3 cells; a line has 6",
	} {
		if _, err := recorded.ReadCSV("r.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v; want %q in it", text, err, want)
		}
	}
}
