package gpuhour_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/journal"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
	"google.golang.org/protobuf/proto"
)

// recordedLog is the log that this version writes for the rich world; history/ holds it and those of every release.
const recordedLog = "sim/history/1/rich-with-gaps.jsonl"

// written plays the rich world on the memory engines and dumps its log.
func written(t *testing.T) []byte {
	t.Helper()
	o := quiet()
	o.Memory = true
	e := open(t, gpuhour.DefaultConfig(), o)
	w := rich()
	if err := w.play(t.Context(), e, w.direct(e.Bus()), nowhere); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := journal.Dump(t.Context(), e.Bus(), &log); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	return log.Bytes()
}

func audit(t *testing.T, log string) replay.Audit {
	t.Helper()
	b := membus.New(func() time.Time { return time.Unix(0, 0) })
	if err := journal.Load(t.Context(), b, strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	report, err := gpuhour.Audit(t.Context(), b, gpuhour.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestWhatWeWriteIsWhatWeWrote: the same world gives the log that is recorded, byte for byte: subjects, headers, bodies and
// invoices are frozen.
func TestWhatWeWriteIsWhatWeWrote(t *testing.T) {
	log := written(t)
	if os.Getenv("GOLDEN") == "rewrite" {
		if err := os.WriteFile(recordedLog, log, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(recordedLog)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(string(log), "\n")
	for i := range was {
		if i >= len(is) || was[i] != is[i] {
			t.Fatalf("line %d of %s is written otherwise now", i+1, recordedLog)
		}
	}
	if len(was) != len(is) {
		t.Fatalf("%d lines were recorded, %d are written", len(was), len(is))
	}
}

// TestRecordedHistories: the logs that earlier versions wrote are replayed, for ever, to the invoices that stand in them.
func TestRecordedHistories(t *testing.T) {
	logs, err := filepath.Glob("sim/history/*/*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no recorded history: %v", err)
	}
	for _, name := range logs {
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if report := audit(t, string(log)); len(report.Differences) > 0 || report.Invoices == 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// TestAuditFindsWhatWasChanged: an honest log has no difference; a changed amount, a lost batch and a lost invoice are named.
func TestAuditFindsWhatWasChanged(t *testing.T) {
	honest := string(written(t))
	if report := audit(t, honest); len(report.Differences) > 0 || report.Invoices != 7 || report.Cuts == 0 {
		t.Fatalf("an honest log: %+v", report)
	}
	lines := strings.SplitAfter(honest, "\n")
	for name, c := range map[string]struct {
		edit func(line string) string
		want string
	}{
		"an amount":       {amountChanged, "invoice.issued/GH-000001: the documents differ: at byte"},
		"an hour's batch": {batchEmptied, "cut.done/"},
	} {
		t.Run(name, func(t *testing.T) {
			report := audit(t, strings.Join(edited(t, lines, c.edit), ""))
			if len(report.Differences) == 0 || !strings.HasPrefix(report.Differences[0], c.want) {
				t.Fatalf("differences: %q; want one that begins with %q", report.Differences, c.want)
			}
		})
	}
}

// edited changes the first line that edit does not give back as it was.
func edited(t *testing.T, lines []string, edit func(string) string) []string {
	t.Helper()
	out := append([]string(nil), lines...)
	for i, line := range out {
		if changed := edit(line); changed != line {
			out[i] = changed
			return out
		}
	}
	t.Fatal("no line of the log could be edited")
	return nil
}

// body replaces the data of a line.
func body(line string, data []byte) string {
	at := strings.Index(line, `"data":"`) + len(`"data":"`)
	return line[:at] + base64.StdEncoding.EncodeToString(data) + "\"}\n"
}

func dataOf(line string) []byte {
	at := strings.Index(line, `"data":"`) + len(`"data":"`)
	data, _ := base64.StdEncoding.DecodeString(strings.TrimSuffix(line[at:], "\"}\n")) // an undecodable line stays as it is
	return data
}

func amountChanged(line string) string { return documentChanged(line, `"total":"`, `"total":"1`) }

func quantityChanged(line string) string {
	return documentChanged(line, `"milli_gpu_seconds":`, `"milli_gpu_seconds":1`)
}

// documentChanged replaces a text in an invoice's document, once.
func documentChanged(line, was, is string) string {
	if !strings.Contains(line, string(fact.TypeInvoiceIssued)) {
		return line
	}
	var m logv1.InvoiceIssued
	if proto.Unmarshal(dataOf(line), &m) != nil {
		return line
	}
	m.Document = bytes.Replace(m.Document, []byte(was), []byte(is), 1)
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
	if err != nil {
		return line
	}
	return body(line, data)
}

// batchEmptied takes the devices out of a batch: its seconds were spoken for, and nothing was seen in them.
func batchEmptied(line string) string {
	if !strings.Contains(line, `"gh.usage.`) {
		return line
	}
	var m logv1.UsageBatch
	if proto.Unmarshal(dataOf(line), &m) != nil || len(m.GetBlocks()) == 0 {
		return line
	}
	m.Blocks = nil
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
	if err != nil {
		return line
	}
	return body(line, data)
}
