package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/cmd/gpuhour/internal/demo"
	"github.com/gpuhour/gpuhour/core/fact"
)

const contractText = `contract: acme-2026
customer: acme
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-02-01, to: 2027-01-01}
billing: {cycle: monthly, anchor: 1, grace: 3h, minimum: 60s}
rates:
  - sku: h100-80g
    on_demand: 35.00/gpu-hour
    region: {cn-east: 100%, cn-west: 88%}
`

// started and stopped are facts of a lease that holds half a device.
func started(lease, customer, sku, region, device, at string) string {
	return fmt.Sprintf(`{"type":"lease.started.v1","key":"%s/started","data":{"lease":"%[1]s","customer":"%s","sku":"%s","pricing_mode":"on_demand",`+
		`"region":"%s","at":"%s","devices":[{"node":"n1","device":"%s","share_milli":500}]}}`+"\n", lease, customer, sku, region, at, device)
}

func stopped(lease, at string) string {
	return fmt.Sprintf(`{"type":"lease.stopped.v1","key":"%s/stopped","data":{"lease":"%[1]s","at":"%s","by":"customer"}}`+"\n", lease, at)
}

// leases are good ones of acme, each on its own device.
func leases(names ...string) string {
	text := ""
	for _, l := range names {
		text += started(l, "acme", "h100-80g", "cn-west", "GPU-of-"+l, "2026-02-28T13:00:00Z") + stopped(l, "2026-02-28T18:00:00Z")
	}
	return text
}

func TestRateCase(t *testing.T) {
	cases, err := filepath.Abs(filepath.Join("..", "..", "core", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	moved(t, nil)
	t.Chdir(cases)
	calls(t, "case.golden", []string{"rate", "b05-last-partial-day.yaml"}, []string{"rate", "b35-stop-before-start.yaml"})
}

// TestRateCaseThatDiffers: the bill is printed, then what differs, and the exit code tells a script.
func TestRateCaseThatDiffers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "core", "cases", "month-rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	moved(t, map[string]string{"wrong.yaml": strings.Replace(string(text), "total: 3.48 USD", "total: 3.49 USD", 1)})
	got := call(t, "", "rate", "wrong.yaml")
	if got.code != 1 || !strings.Contains(got.err, "wrong.yaml:23: ") || !strings.Contains(got.err, "3.49") || !strings.Contains(got.err, "3.48") ||
		!strings.Contains(got.err, "1 of 1 scenario not as expected: wrong.yaml") {
		t.Errorf("%v", got)
	}
}

func TestRateFacts(t *testing.T) {
	moved(t, map[string]string{"facts.jsonl": leases("L1"), "acme.yaml": contractText})
	for _, name := range []string{"text", "zh", "json"} {
		args := []string{"rate", "facts.jsonl", "--contract", "acme.yaml"}
		switch name {
		case "zh":
			args = append(args, "--lang", "zh")
		case "json":
			args = append(args, "--format", "json")
		}
		calls(t, "rate-"+name+".golden", args)
	}
	file, standard := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml"), call(t, leases("L1"), "rate", "-", "--contract", "acme.yaml")
	if file != standard {
		t.Errorf("standard input is rated otherwise than a file:\n%v\n%v", standard, file)
	}
	early := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml", "--until", "2026-03-01T03:00:00+08:00", "--format", "json")
	if early.code != 0 || strings.Count(early.out, "\n") != 1 {
		t.Errorf("up to the close of February there is one invoice: %v", early)
	}
}

// TestRateFactsThatNeverEnd: others write 9999-12-31 for an end that is not known. The lease is open, and nothing is rated up to then.
func TestRateFactsThatNeverEnd(t *testing.T) {
	start := started("L1", "acme", "h100-80g", "cn-west", "GPU-1", "2026-02-28T13:00:00Z")
	moved(t, map[string]string{"open.jsonl": start, "sentinel.jsonl": start + stopped("L1", "9999-12-31T00:00:00Z"), "acme.yaml": contractText})
	open := call(t, "", "rate", "open.jsonl", "--contract", "acme.yaml")
	sentinel := call(t, "", "rate", "sentinel.jsonl", "--contract", "acme.yaml")
	// From 21:00 to midnight in Shanghai: 3 h x 0.5 x 35.00 x 88%.
	if open != sentinel || open.code != 0 || !strings.Contains(open.out, "46.20 CNY") {
		t.Errorf("the lease is open either way and February costs 46.20:\n%v\n%v", open, sentinel)
	}
}

// TestBadContracts: every document that cannot be billed by is refused with file, line and column, all errors at once.
func TestBadContracts(t *testing.T) {
	moved(t, map[string]string{"facts.jsonl": leases("L1")})
	var text strings.Builder
	for _, c := range []struct{ name, old, new string }{
		{"broken YAML", "billing: {", "billing: {{"},
		{"text that is no mapping", contractText, "hello\n"},
		{"unknown field", "customer:", "customr:"},
		{"unknown zone", "Asia/Shanghai", "Asia/Shangai"},
		{"unknown currency", "CNY", "CNX"},
		{"unit missing in a price", "35.00/gpu-hour", "35.00"},
		{"unknown unit", "gpu-hour", "gpu-fortnight"},
		{"unit missing in a length", "60s", "60"},
		{"negative price", "35.00", "-35.00"},
		{"negative factor", "88%", "-88%"},
		{"negative length", "60s", "-60s"},
		{"giant price", "35.00", strings.Repeat("9", 38)},
		{"giant exponent", "35.00", "1e999999999"},
		{"giant factor", "88%", "88000000000000000%"},
		{"giant length", "60s", "99999999999999999999h"},
		{"giant anchor", "anchor: 1", "anchor: 32"},
		{"giant year", "2027-01-01", "99999-01-01"},
		{"term that ends before it begins", "2027-01-01", "2025-01-01"},
		{"clause of a later version", "rates:", "tax: 6%\nrates:"},
		{"everything at once", contractText, "contract: x\ncustomr: y\ncurrency: EURO\ntimezone: Mars\nrates: []\n"},
	} {
		changed := strings.Replace(contractText, c.old, c.new, 1)
		if changed == contractText {
			t.Fatalf("%s changes nothing", c.name)
		}
		if err := os.WriteFile("acme.yaml", []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		got := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml")
		if got.code != 1 || got.out != "" || !strings.HasPrefix(got.err, "gpuhour: acme.yaml:") {
			t.Errorf("%s: %v", c.name, got)
		}
		fmt.Fprintf(&text, "%s\n%s", c.name, got.err)
	}
	golden(t, "bad-contracts.golden", text.String())
}

// badLines cannot be facts, for each its own reason.
func badLines() string {
	good := leases("L1")
	start, _, _ := strings.Cut(good, "\n")
	return strings.Join([]string{
		`nonsense`, `{"type":"lease.started.v1"`, `{"type":"lease.started.v1","key":"k"}`, `{"type":"lease.begun.v1","key":"k","data":{}}`,
		strings.Replace(start, `"key":"L1/started",`, "", 1),
		strings.Replace(start, "2026-02-28T13:00:00Z", "2026-02-28", 1),
		strings.Replace(start, `"lease":"L1",`, "", 1),
		strings.Replace(start, `"region"`, `"regoin"`, 1),
		strings.Replace(start, ":500", ":-500", 1),
		strings.Replace(start, ":500", ":5000", 1),
		strings.Replace(start, ":500", ":99999999999999999999", 1),
		strings.Replace(start, ":500", ":1e400", 1),
		strings.Replace(start, ":500", `:"half"`, 1),
		strings.Replace(start, "2026-", "92026-", 1),
		strings.Replace(stopped("L1", "2026-02-28T18:00:00Z"), `"customer"`, `"somebody"`, 1),
	}, "\n")
}

// TestBadFacts: every bad line is told with its number, between good ones, and nothing is billed.
func TestBadFacts(t *testing.T) {
	moved(t, map[string]string{"facts.jsonl": leases("L1") + "\n" + badLines() + "\n" + leases("L2"), "acme.yaml": contractText})
	got := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml")
	if got.code != 1 || got.out != "" {
		t.Errorf("exit %d, output %q", got.code, got.out)
	}
	for n := range strings.Count(badLines(), "\n") {
		if want := fmt.Sprintf("facts.jsonl:%d: ", n+4); !strings.Contains(got.err, want) {
			t.Errorf("line %d is not told", n+4)
		}
	}
	golden(t, "bad-facts.golden", got.err)
}

func TestManyBadFacts(t *testing.T) {
	moved(t, map[string]string{
		"facts.jsonl": strings.Repeat("nonsense\n", 100), "long.jsonl": leases("L1") + strings.Repeat("x", maxLine+1) + "\n", "acme.yaml": contractText,
	})
	got := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml")
	if n := strings.Count(got.err, "facts.jsonl:"); n != shownErrors+1 || !strings.Contains(got.err, "facts.jsonl: 80 more bad lines\n") {
		t.Errorf("%d lines are told: %v", n, got)
	}
	got = call(t, "", "rate", "long.jsonl", "--contract", "acme.yaml")
	if want := "gpuhour: long.jsonl:3: the line has more than 524288 bytes; a fact is one line\n"; got.err != want {
		t.Errorf("%q, want %q", got.err, want)
	}
}

// TestRefusedFacts: what contradicts a contract or another fact is shown as refused and holds its own period back; the
// other customer's is billed.
func TestRefusedFacts(t *testing.T) {
	other := strings.NewReplacer("acme", "bolt", "cn-west: 88%", "cn-west: 50%").Replace(contractText)
	good := started("B1", "bolt", "h100-80g", "cn-west", "GPU-9", "2026-02-10T00:00:00Z") + stopped("B1", "2026-02-10T02:00:00Z")
	all := []struct{ name, facts string }{
		{"overlap", leases("L1") + strings.ReplaceAll(strings.ReplaceAll(leases("L2"), "GPU-of-L2", "GPU-of-L1"), ":500", ":600")},
		{"stop before start", leases("L1") + started("L2", "acme", "h100-80g", "cn-east", "GPU-2", "2026-02-10T05:00:00Z") + stopped("L2", "2026-02-10T03:00:00Z")},
		{"unknown SKU", leases("L1") + strings.ReplaceAll(leases("L2"), "h100-80g", "h200")},
		{"no region entry", leases("L1") + strings.ReplaceAll(leases("L2"), "cn-west", "eu-north")},
		{"lease that never started", leases("L1") + stopped("L2", "2026-02-10T03:00:00Z")},
		{"contract that cannot be read", leases("L1") + signed(strings.Replace(contractText, "35.00/gpu-hour", "35.00", 1), "acme-2027")},
		{"key used twice", leases("L1") + strings.Replace(stopped("L1", "2026-02-28T19:00:00Z"), "19:00", "17:00", 1)},
	}
	moved(t, map[string]string{"acme.yaml": contractText, "bolt.yaml": other})
	var text strings.Builder
	for _, c := range all {
		if err := os.WriteFile("facts.jsonl", []byte(good+c.facts), 0o600); err != nil {
			t.Fatal(err)
		}
		got := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml,bolt.yaml", "--until", "2026-03-01T03:00:00+08:00")
		if !strings.Contains(got.out, "Contract   bolt-2026") || !strings.Contains(got.out, "Total due  17.50 CNY") {
			t.Errorf("%s: bolt's hour is not billed:\n%v", c.name, got)
		}
		_, got.out, _ = strings.Cut(got.out[strings.LastIndex(got.out, "\nRounding"):], "\n\n") // without the invoices
		fmt.Fprintf(&text, "### %s\n%s\n", c.name, got)
	}
	golden(t, "refused-facts.golden", text.String())
}

func signed(document, contract string) string {
	data, err := json.Marshal(&fact.ContractSigned{Contract: contract, Customer: "acme", Document: document})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(`{"type":"contract.signed.v1","key":"sign/%s","data":%s}`+"\n", contract, data)
}

// TestContractAsAFact: a contract that came as a fact bills; one that cannot be read says why nothing is billed.
func TestContractAsAFact(t *testing.T) {
	moved(t, map[string]string{
		"good.jsonl": signed(contractText, "acme-2026") + leases("L1"),
		"bad.jsonl":  signed(strings.Replace(contractText, "35.00/gpu-hour", "35.00", 1), "acme-2026") + leases("L1"),
	})
	if got := call(t, "", "rate", "good.jsonl"); got.code != 0 || !strings.Contains(got.out, "46.20 CNY") {
		t.Errorf("good: %v", got)
	}
	got := call(t, "", "rate", "bad.jsonl")
	if got.code != 1 || !strings.Contains(got.out, "acme-2026:9:16: rates[0].on_demand: unit is missing; write 35.00/gpu-hour") ||
		!strings.Contains(got.err, "no contract is in force") {
		t.Errorf("bad: %v", got)
	}
}

// TestCarriedRefusalBillsTheRest: once a person has said so, the good lease of a held period is billed.
func TestCarriedRefusalBillsTheRest(t *testing.T) {
	carried := `{"type":"refusal.carried.v1","key":"carry","data":{"contract":"acme-2026","period_start":"2026-01-31T16:00:00Z","by":"finance","note":"wrong SKU"}}` + "\n"
	moved(t, map[string]string{"facts.jsonl": leases("L1") + strings.ReplaceAll(leases("L2"), "h100-80g", "h200") + carried, "acme.yaml": contractText})
	got := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml", "--until", "2026-03-01T03:00:00+08:00")
	if got.code != 0 || !strings.Contains(got.out, "Total due  46.20 CNY") || !strings.Contains(got.out, "no rate for this SKU") {
		t.Errorf("%v", got)
	}
}

// TestOpenbRoad imports the trace and prices it: its GPU-hours are those that a count over the CSV gives.
func TestOpenbRoad(t *testing.T) {
	moved(t, nil)
	imported := call(t, "", "import", "openb", "--out", "facts.jsonl")
	if want := "6203 leases (0 unplaced); 1088 pods use no GPU and 861 were never scheduled: they bill nothing\n"; imported.err != want || imported.out != "" {
		t.Errorf("import: %v", imported)
	}
	facts, err := os.ReadFile("facts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(facts), "\n"); n != 12_406 {
		t.Errorf("%d facts, want 12406", n)
	}
	if again := call(t, "", "import", "openb"); again.out != string(facts) {
		t.Error("the same trace gives other bytes")
	}
	contracts, err := demo.Contracts("")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"rate", "facts.jsonl", "--format", "json"}
	for _, c := range contracts {
		body, ok := c.Body.(*fact.ContractSigned)
		if !ok {
			t.Fatalf("%T is no contract", c.Body)
		}
		if err := os.WriteFile(body.Contract+".yaml", []byte(body.Document), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--contract", body.Contract+".yaml")
	}
	rated := call(t, "", args...)
	if rated.code != 0 || rated.err != `{"blocked":[],"refusals":[]}`+"\n" {
		t.Errorf("rate: exit %d, %s", rated.code, rated.err)
	}
	var milli int64
	for line := range strings.Lines(rated.out) {
		var d struct {
			Quantity struct {
				Milli int64 `json:"milli_gpu_seconds"`
			} `json:"quantity"`
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		milli += d.Quantity.Milli
	}
	const hour = 3_600_000
	if milli/hour != 51_470 || milli%hour*1_000_000_000/hour != 674_158_333 {
		t.Errorf("%d milli-GPU-seconds, want 51,470.674158333 GPU-hours", milli)
	}
}

// TestPublishWithBadLines publishes nothing: the engines are not even opened.
func TestPublishWithBadLines(t *testing.T) {
	moved(t, map[string]string{"facts.jsonl": leases("L1") + "nonsense\n"})
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"publish", "facts.jsonl", "--data", "data"}, {"publish", "--data", "data"}} {
		got := call(t, leases("L1")+"nonsense\n", args...)
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, ":3: not JSON") {
			t.Errorf("%v: %v", args, got)
		}
	}
	if entries, err := os.ReadDir("data"); err != nil || len(entries) > 0 {
		t.Errorf("the data directory holds %v, %v; want nothing", entries, err)
	}
}
