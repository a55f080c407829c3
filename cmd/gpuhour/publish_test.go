package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
)

func signedLine(key, id, customer, document string) string {
	text, _ := json.Marshal(document) // a string always has a form in JSON
	return `{"type":"contract.signed.v1","key":"` + key + `","data":{"contract":"` + id + `","customer":"` + customer + `","document":` + string(text) + `}}`
}

// TestStatements: a contract file is a signature, and stands in front of the facts.
func TestStatements(t *testing.T) {
	moved(t, map[string]string{"facts.jsonl": leases("L1"), "acme.yaml": contractText})
	facts, err := readStatements([]string{"facts.jsonl", "acme.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range facts {
		keys = append(keys, f.Key)
	}
	if diff := cmp.Diff([]string{"contract/acme-2026", "L1/started", "L1/stopped"}, keys); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	only, err := readStatements([]string{"acme.yaml"}, strings.NewReader("nonsense"))
	if err != nil || len(only) != 1 {
		t.Errorf("a contract alone reads no standard input: %v, %v", only, err)
	}
}

// TestPublishRefusesBeforehand: nothing is published that nobody may state, or that would be refused for its document.
func TestPublishRefusesBeforehand(t *testing.T) {
	moved(t, map[string]string{
		"bad.yaml":      strings.Replace(contractText, "CNY", "RMB", 1),
		"broken.jsonl":  signedLine("k", "acme-2026", "acme", "contract: acme-2026\ncustomer: acme\n") + "\n",
		"other.jsonl":   signedLine("k", "acme-2026", "bolt", contractText) + "\n",
		"closing.jsonl": `{"type":"period.closed.v1","key":"p","data":{"contract":"c","period_start":"2026-01-01T00:00:00Z","period_end":"2026-02-01T00:00:00Z","n":1,"cut":"c"}}` + "\n",
		"halt.jsonl":    `{"type":"customer.halted.v1","key":"h","data":{"customer":"acme","reason":"x","block":1}}` + "\n",
		"clock.jsonl":   `{"type":"clock.resumed.v1","key":"r","data":{"at":"2026-01-01T00:00:00Z","by":"ops"}}` + "\n",
		"tick.jsonl":    `{"type":"spot.price_changed.v1","key":"t","data":{"index":"a100","at":"2026-01-01T00:00:00Z","currency":"USD","price":"1.20"}}` + "\n",
		"mode.jsonl":    strings.Replace(leases("L1"), "on_demand", "ondemand", 1),
		"reading.jsonl": `{"type":"meter.recorded.v1","key":"m","data":{"contract":"c","meter":"m","resource":"r","at":"2026-01-01T00:00:00Z","quantity":"12,5"}}` + "\n",
		"less.jsonl":    `{"type":"meter.recorded.v1","key":"m","data":{"contract":"c","meter":"m","resource":"r","at":"2026-01-01T00:00:00Z","quantity":"-1"}}` + "\n",
		"story.yaml":    "story: s\ncontracts: []\n",
		"empty.jsonl":   `{"type":"lease.resized.v1","key":"r","data":{}}` + "\n",
	})
	calls(t, "publish.golden", []string{"publish", "bad.yaml"}, []string{"publish", "broken.jsonl"}, []string{"publish", "other.jsonl"}, []string{"publish", "closing.jsonl"},
		[]string{"publish", "halt.jsonl"}, []string{"publish", "clock.jsonl"}, []string{"publish", "tick.jsonl"},
		[]string{"publish", "mode.jsonl"}, []string{"publish", "reading.jsonl"}, []string{"publish", "less.jsonl"}, []string{"publish", "story.yaml"},
		[]string{"publish", "empty.jsonl"})
}

// TestFactsPage: every line of docs/facts.md may be stated, and every type that may be is there.
func TestFactsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "facts.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[fact.Type]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, `{"`) {
			continue
		}
		f, err := fact.DecodeLine([]byte(strings.TrimSpace(line)))
		if err == nil {
			err = statable(f)
		}
		if err != nil {
			t.Errorf("%s%v", line, err)
			continue
		}
		shown[f.Body.Type()] = true
	}
	for _, want := range []fact.Type{
		fact.TypeContractSigned, fact.TypeContractAmended, fact.TypeLeaseStarted, fact.TypeLeaseResized, fact.TypeLeaseStateChanged, fact.TypeLeaseStopped,
		fact.TypeRefusalWaived, fact.TypeRefusalCarried, fact.TypeSpotPriceChanged, fact.TypeDeviceDeclared,
		fact.TypeNodeEnrolled, fact.TypeNodeRevoked,
	} {
		if !shown[want] {
			t.Errorf("no line shows %s", want)
		}
	}
}
