package gpuhour_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// loaded is a bus that holds a recorded log.
func loaded(t *testing.T, log string) bus.Bus {
	t.Helper()
	b := membus.New(func() time.Time { return time.Unix(0, 0) })
	if err := journal.Load(t.Context(), b, strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	return b
}

// documentsIn reads the invoices of a log from its facts.
func documentsIn(t *testing.T, b bus.Bus) []*bill.Document {
	t.Helper()
	var out []*bill.Document
	for reader := journal.OpenTicks(b, journal.Position{}); ; {
		block, _, ok, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		for _, f := range block.Facts {
			if issued, isInvoice := f.Body.(*fact.InvoiceIssued); isInvoice {
				d, err := bill.ParseDocument(issued.Document)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, d)
			}
		}
	}
}

// TestExplainRecordedHistories: every line of every invoice that stands in a recorded log is explained from the log alone; that its
// segments sum to the line is asserted in there.
func TestExplainRecordedHistories(t *testing.T) {
	logs, err := filepath.Glob("sim/history/*/*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no recorded history: %v", err)
	}
	lines := 0
	for _, name := range logs {
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b := loaded(t, string(log))
		for _, d := range documentsIn(t, b) {
			for i := range d.Lines {
				x, err := gpuhour.Explain(t.Context(), b, gpuhour.DefaultConfig(), d.Invoice, explain.LineName{Number: i + 1}, nil)
				if d.Kind == bill.KindCancellation {
					if err == nil || !strings.Contains(err.Error(), "explain that invoice") {
						t.Errorf("%s %s: a cancellation gives %v", name, d.Invoice, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if lines++; x.Item == nil && len(x.Segments) == 0 {
					t.Errorf("%s %s line %d: no segments", name, d.Invoice, i+1)
				}
			}
		}
	}
	if lines < 5 {
		t.Errorf("only %d lines", lines)
	}
}

// TestExplainDoesNotBelieveAChangedLog: a log whose quantities are not what it replays to is not explained away.
func TestExplainDoesNotBelieveAChangedLog(t *testing.T) {
	log, err := os.ReadFile(recordedLog)
	if err != nil {
		t.Fatal(err)
	}
	line := explain.LineName{Number: 1}
	changed := strings.Join(edited(t, strings.SplitAfter(string(log), "\n"), quantityChanged), "")
	_, err = gpuhour.Explain(t.Context(), loaded(t, changed), gpuhour.DefaultConfig(), "GH-000001", line, nil)
	if err == nil || !strings.Contains(err.Error(), "segments of line 1 sum to") {
		t.Errorf("a changed quantity gives %v", err)
	}
	_, err = gpuhour.Explain(t.Context(), loaded(t, string(log)), gpuhour.DefaultConfig(), "GH-999999", line, nil)
	if err == nil || !strings.Contains(err.Error(), "was not issued") {
		t.Errorf("an unknown invoice gives %v", err)
	}
}
