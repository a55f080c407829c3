package main

import (
	"strings"
	"testing"
)

// wholeContract holds every clause.
const wholeContract = `contract: acme-2026
customer: acme
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-01-01, to: 2027-01-01}
billing: {cycle: monthly, minimum: 60s, rounding: half_even}
price_book: list-cn
rates:
  - sku: h100-80g
    on_demand: 35.00/gpu-hour
    region: {cn-east: 100%, cn-west: 88%}
    service_tier: {t3: 100%, t4: 108%}
    dedicated: 125%
    reserved: [{name: base, quantity: 64, price: 15120.00/gpu-month, from: 2026-01-01, to: 2027-01-01}]
    spot: {index: h100-80g, max: 70% of on_demand, reclaimed_free_within: 1h}
    forward: [{quantity: 16, price: 24.00/gpu-hour, from: 2026-07-01, to: 2026-10-01, take_or_pay: true}]
    cap: 40.00/gpu-hour
    volume: {by: gpu-hours, method: graduated, tiers: [{upto: 1000, price: 100%}, {upto: 10000, price: 90%}, {price: 80%}]}
  - {sku: a100}
schedule:
  - {name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, Sat-Sun 00:00-24:00], holidays: cn-2026, off: 40%}
  - {name: us-daytime, for: [spot], windows: [daily 22:00-06:00], add: 15%}
idle_relief: {below: 5%, after: 15m, off: 50%, bridge: 10s}
packages: [{name: week, sku: h100-80g, unit: week, quantity: 1, price: 4200.00}]
meters:
  - {name: egress, price: 0.80/GB, free: 100 GB, model: unit}
  - {name: storage-ssd, price: 0.35/GB-month}
  - {name: training-steps, price: 2.00/1000, model: package}
bundles: [{with: storage-ssd, at_least: 50 TB-month, on: h100-80g, off: 5%}]
addons: [{name: support-gold, price: 3000.00/month, prorate: true}, {name: ai-enterprise, price: 3.20/gpu-hour}, {name: review, price: 910.00/quarter, prorate: true}, {name: setup, price: 500.00/once, pay: advance}]
commitment: {spend: 500000.00/month, shortfall: bill}
`

const bookText = "# list prices\nbook: list-cn\ncurrency: CNY\nrates:\n  - {sku: h100-80g, on_demand: 44.00/gpu-hour}\n  - {sku: a100, on_demand: 14.00/gpu-hour}\n"

func contractFiles(t *testing.T) {
	t.Helper()
	moved(t, map[string]string{
		"acme.yaml": contractText, "whole.yaml": wholeContract, "book.yaml": bookText,
		"bad.yaml":      strings.NewReplacer("35.00/gpu-hour", "35.00", "CNY", "RMB", "minimum: 60s", "minimum: 60").Replace(contractText),
		"bad-book.yaml": strings.Replace(bookText, "14.00/gpu-hour", "-14.00/gpu-hour", 1),
		"tax.yaml":      contractText + "tax: {}\n",
		"written.yaml":  strings.Replace(contractText, "grace: 3h", "grace: 3h, rounding: half_away_from_zero, month: actual", 1),
		"july.yaml": strings.NewReplacer("35.00", "33.00", "3000.00", "2500.00", "    dedicated: 125%\n", "", "90%", "85%", "22:00-08:00", "21:00-08:00",
			", {name: ai-enterprise, price: 3.20/gpu-hour}", "", "free: 100 GB, ", "", "  - {sku: a100}\n", "  - {sku: a100}\n  - {sku: b200, on_demand: 60.00/gpu-hour}\n",
			"minimum: 60s", "minimum: 60s, bill_by: observed").Replace(wholeContract),
		"weekly.yaml":   strings.NewReplacer("Asia/Shanghai", "UTC", "cycle: monthly, anchor: 1", "cycle: weekly, anchor: 3").Replace(contractText),
		"quarters.yaml": strings.NewReplacer("3000.00/month", "9000.00/quarter", "cycle: monthly", "fee_month: 30d, cycle: monthly").Replace(wholeContract),
		"other.yaml":    strings.Replace(wholeContract, "currency: CNY", "currency: USD", 1),
	})
}

// TestContractCheck tells every error of every file, and in one line what a good file is.
func TestContractCheck(t *testing.T) {
	contractFiles(t)
	calls(
		t, "contract-check.golden", []string{"contract", "check", "acme.yaml", "whole.yaml", "book.yaml"}, []string{"contract", "check", "bad.yaml"},
		[]string{"contract", "check", "bad-book.yaml", "acme.yaml", "tax.yaml", "none.yaml"}, []string{"contract", "check"}, []string{"contract", "chek"},
		[]string{"publish", "book.yaml"},
	)
	if got := call(t, contractText, "contract", "check", "-"); got.code != 0 || !strings.HasPrefix(got.out, "-: contract acme-2026 of acme in CNY; ") {
		t.Errorf("standard input: %v", got)
	}
	if got := call(t, "contract: x\n", "contract", "check", "-"); got.code != 1 || !strings.HasPrefix(got.err, "-:1:1: `customer:` is missing") {
		t.Errorf("standard input: %v", got)
	}
}

func TestContractShow(t *testing.T) {
	contractFiles(t)
	calls(t, "contract-show.golden", []string{"contract", "show", "whole.yaml"}, []string{"contract", "show", "acme.yaml"}, []string{"contract", "show", "bad.yaml"},
		[]string{"contract", "show", "book.yaml"}, []string{"contract", "show", "acme.yaml", "--lang", "fr"})
	calls(t, "contract-show-zh.golden", []string{"contract", "show", "whole.yaml", "--lang", "zh"})
}

// TestContractDiff has the exit codes of diff.
func TestContractDiff(t *testing.T) {
	contractFiles(t)
	calls(t, "contract-diff.golden", []string{"contract", "diff", "acme.yaml", "written.yaml"}, []string{"contract", "diff", "whole.yaml", "july.yaml"},
		[]string{"contract", "diff", "whole.yaml", "july.yaml", "--lang", "zh"}, []string{"contract", "diff", "whole.yaml", "other.yaml"},
		[]string{"contract", "diff", "acme.yaml", "weekly.yaml"}, []string{"contract", "diff", "acme.yaml", "weekly.yaml", "--lang", "zh"},
		[]string{"contract", "diff", "acme.yaml", "none.yaml"}, []string{"contract", "diff", "whole.yaml", "quarters.yaml"},
		[]string{"contract", "diff", "whole.yaml", "quarters.yaml", "--lang", "zh"}, []string{"contract", "diff", "bad.yaml", "acme.yaml"}, []string{"contract", "diff", "-", "-"})
	if got := call(t, contractText, "contract", "diff", "acme.yaml", "-"); got.code != 0 || got.out != "The two contracts say the same.\n" {
		t.Errorf("standard input: %v", got)
	}
}
