package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/rater"
)

// TestRecoveryIsTold: what was found, what it would do or did, and what is left to a person.
func TestRecoveryIsTold(t *testing.T) {
	document := func(name, kind, customer, total string, milli int64) *bill.Document {
		d := &bill.Document{
			Invoice: name, Kind: kind, Customer: customer, Contract: customer + "-2026", Currency: "CNY", Total: total,
			Period: bill.DocumentPeriod{From: "2026-03-01T00:00:00+08:00", To: "2026-04-01T00:00:00+08:00"},
		}
		d.Quantity.MilliGPUSeconds = milli
		return d
	}
	lost := gpuhour.Recovery{
		Incarnation: 2, Block: 812, FactsSeq: 131, At: 1_775_012_400, LogBlock: 640, LogFactsSeq: 100, LogAt: 1_772_668_800,
		Invoices: []*bill.Document{
			document("GH-000004", bill.KindInvoice, "acme", "36.00", 3_600_000), document("GH-000005", bill.KindCorrection, "zeta", "-7.20", -720_000),
		},
	}
	grown := gpuhour.Recovery{Incarnation: 4, Block: 5, FactsSeq: 2, At: 1_772_668_800, LogBlock: 9, LogFactsSeq: 3}
	var out bytes.Buffer
	for _, c := range []struct {
		r    gpuhour.Recovery
		done bool
	}{{gpuhour.Recovery{}, false}, {lost, false}, {lost, true}, {grown, false}} {
		if err := tellRecovery(&out, c.r, c.done); err != nil {
			t.Fatal(err)
		}
		out.WriteString("--\n")
	}
	golden(t, "recovery.golden", out.String())
}

// TestRecoverWrongCalls: nothing is opened or made for a call that lacks something.
func TestRecoverWrongCalls(t *testing.T) {
	moved(t, map[string]string{
		"log.jsonl":     `{"type":"log.recovered.v1","key":"r","data":{"incarnation":2,"by":"ops","reason":"x"}}` + "\n",
		"invoice.jsonl": `{"type":"invoice.recovered.v1","key":"i","data":{"incarnation":2,"series":"GH","number":1,"customer":"a","closing":"c","document":"e30="}}` + "\n",
		"first.jsonl":   `{"type":"log.recovered.v1","key":"r","data":{"incarnation":1,"by":"ops","reason":"x"}}` + "\n",
	})
	calls(t, "recover.golden", []string{"recover", "--yes", "--by", "ops-2"}, []string{"recover", "--yes", "--by", "", "--reason", "a disk was lost"},
		[]string{"recover", "now"}, []string{"recover", "--data", "elsewhere"}, []string{"recover", "--data", "elsewhere", "--yes", "--by", "ops-2", "--reason", "r"},
		[]string{"publish", "log.jsonl"}, []string{"publish", "invoice.jsonl"}, []string{"publish", "first.jsonl"})
	if exists("elsewhere") {
		t.Error("a directory was made")
	}
}

// TestDoctorNamesARewoundLog: tables that stand at a position which the log does not hold are a finding with both remedies.
func TestDoctorNamesARewoundLog(t *testing.T) {
	e, err := gpuhour.Open(t.Context(), gpuhour.DefaultConfig(), gpuhour.Options{Memory: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Declare(t.Context(), fact.Scripted); err != nil {
		t.Fatal(err)
	}
	if err := e.Store().Put(t.Context(), store.Put{Progress: store.Progress{Service: rater.Service, Block: 7, At: 1_772_668_800}}); err != nil {
		t.Fatal(err)
	}
	_, d := examined(t, e)
	last := d.findings[len(d.findings)-1]
	for _, want := range []string{"BAD", "restore a newer copy", "gpuhour recover --by NAME --reason TEXT"} {
		if !strings.Contains(last, want) {
			t.Errorf("the doctor says %q; want %q in it", last, want)
		}
	}
}
