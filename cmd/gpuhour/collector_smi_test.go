package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// TestSMIGoesOnInAnotherSession: the header came once, before the first session; the next one still reads rows, and after the last row
// each of them says that nvidia-smi has ended.
func TestSMIGoesOnInAnotherSession(t *testing.T) {
	in, out := io.Pipe()
	open, err := smiOpener("-", in)
	if err != nil {
		t.Fatal(err)
	}
	go fmt.Fprint(out, "uuid, utilization.gpu [%]\nGPU-a, 40 %\n")
	if got := sampleOnce(t, open); got != collector.Known(40) {
		t.Errorf("the first session read %v", got)
	}
	for _, text := range []string{"GPU-a, 70 %\n", "\n"} { // the row is taken when the line after it is read
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	if got := sampleOnce(t, open); got != collector.Known(70) {
		t.Errorf("the second session read %v", got)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := open()
	if err != nil {
		t.Fatal(err)
	}
	<-h.(smiOutput).Done()
	if _, err := h.Scan(); err == nil || !strings.Contains(err.Error(), "standard input) has ended; start it again") {
		t.Errorf("after its end it says %v", err)
	}
}

// sampleOnce is how busy the first device is in a session of its own.
func sampleOnce(t *testing.T, open func() (collector.Hardware, error)) collector.Metric {
	t.Helper()
	h, err := open()
	if err != nil {
		t.Fatal(err)
	}
	units, err := h.Scan()
	if err != nil || len(units) != 1 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	readings, err := units[0].Sample(nil)
	if err != nil || len(readings) == 0 || readings[0].Device != "GPU-a" {
		t.Fatalf("%v, %v", readings, err)
	}
	if readings[0].Energy != collector.Unknown(usage.ReasonNotSupported) {
		t.Errorf("energy is %v", readings[0].Energy)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return readings[0].Busy
}

// TestReplayOfSMI plays a file that nvidia-smi wrote, and tells which of its lines say nothing.
func TestReplayOfSMI(t *testing.T) {
	moved(t, map[string]string{"smi.csv": "timestamp, uuid, utilization.gpu [%]\n2026/05/01 12:00:00.123, GPU-0, 35 %\n2026/05/01 12:00:01.123, GPU-0\n" +
		strings.Repeat("noise\n", 5) + "2026/05/01 12:00:02.123, GPU-0, 36 %\n"})
	rec, err := readRecording("smi.csv")
	if err != nil {
		t.Fatal(err)
	}
	if rec.Seconds != 3 || len(rec.Notes) != maxTold+1 || !strings.HasPrefix(rec.Notes[0], "smi.csv:3: ") || rec.Notes[maxTold] != "smi.csv: 1 line more not used, in whole or in part" {
		t.Errorf("%d seconds; %q", rec.Seconds, rec.Notes)
	}
}
