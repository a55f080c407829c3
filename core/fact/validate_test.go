package fact

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/span"
)

// change is a sample with one thing made wrong, and the one line that must say so.
type change struct {
	body Body
	want string
}

// changed edits the sample of a type.
func changed[B Body](edit func(b B), want string) change {
	for _, s := range samples() {
		if b, ok := s.(B); ok {
			edit(b)
			return change{b, want}
		}
	}
	panic("no sample")
}

func TestStatedRefused(t *testing.T) {
	long := strings.Repeat("x", MaxNameBytes+1)
	checkRefused(t, []change{
		changed(func(b *ClockDeclared) { b.Mode = "sundial" }, `mode is "sundial"; write wall or scripted`),
		changed(func(b *TimeResumed) { b.At = 0 }, "at is missing; write it like 2026-02-28T13:00:00Z"),
		changed(func(b *TimeResumed) { b.At = -5 }, "at is missing"),
		changed(func(b *TimeResumed) { b.At = span.Open }, "at is missing"),
		changed(func(b *TimeResumed) { b.At = latest + 1 }, "at is 253402300800 seconds after 1970, which is past the year 9999"),
		changed(func(b *TimeResumed) { b.By = "" }, "by is missing"),
		changed(func(b *ContractSigned) { b.Contract = long }, "contract has 257 bytes; at most 256 are allowed"),
		changed(func(b *ContractSigned) { b.Customer = "a\nb" }, `customer "a\nb" holds a control character`),
		changed(func(b *ContractSigned) { b.Customer = "a\xff" }, "customer is not valid UTF-8"),
		changed(func(b *ContractSigned) { b.Document = "" }, "document has 0 bytes"),
		changed(func(b *ContractSigned) { b.Document = "\xff" }, "document has 1 bytes; it is UTF-8 text"),
		changed(func(b *ContractAmended) { b.Effective = 0 }, "effective is missing"),
		changed(func(b *ContractAmended) { b.Document = strings.Repeat("x", MaxDocument+1) }, "document has 262145 bytes"),
		changed(func(b *LeaseStarted) { b.Lease = "" }, "lease is missing"),
		changed(func(b *LeaseStarted) { b.Customer = "" }, "customer is missing"),
		changed(func(b *LeaseStarted) { b.SKU = "" }, "sku is missing"),
		changed(func(b *LeaseStarted) { b.PricingMode = "" }, "pricing_mode is missing"),
		changed(func(b *LeaseStarted) { b.Contract = long }, "contract has 257 bytes"),
		changed(func(b *LeaseStarted) { b.Region = "\x00" }, "region \"\\x00\" holds a control character"),
		changed(func(b *LeaseStarted) { b.ServiceTier = "\xff" }, "service_tier is not valid UTF-8"),
		changed(func(b *LeaseStarted) { b.At = 0 }, "at is missing"),
		changed(func(b *LeaseStarted) { b.Count = 2 }, "devices and count or share_milli are both given"),
		changed(func(b *LeaseStarted) { b.Devices = nil }, "count is 0; an unplaced lease states a count from 1 to 65536"),
		changed(func(b *LeaseStarted) { b.Devices[0].Node = "" }, "devices[0].node is missing"),
		changed(func(b *LeaseStarted) { b.Devices[1].Device = "" }, "devices[1].device is missing"),
		changed(func(b *LeaseStarted) { b.Devices[1].ShareMilli = 1001 }, "devices[1].share_milli is 1001; it goes from 1 to 1000"),
		changed(func(b *LeaseStarted) { b.Devices[1].Device = "GPU-0" }, `devices[1]: device "GPU-0" is listed twice; add its shares up`),
		changed(func(b *LeaseStarted) { b.Devices = make([]Share, MaxDevices+1) }, "65537 devices; at most 65536"),
		changed(func(b *LeaseStarted) { b.Labels = map[string]string{"": "x"} }, "a label's name is missing"),
		changed(func(b *LeaseStarted) { b.Labels = map[string]string{"team": "\xff"} }, `label "team" is not valid UTF-8`),
		changed(func(b *LeaseStarted) { b.Labels = manyLabels() }, "65 labels; at most 64 are allowed"),
		changed(func(b *LeaseResized) { b.Count = MaxDevices + 1 }, "count is 65537"),
		changed(func(b *LeaseResized) { b.ShareMilli = 0 }, "share_milli is 0; it goes from 1 to 1000 (a whole device)"),
		changed(func(b *LeaseStateChanged) { b.State = "paused" }, `state is "paused"; write running, suspended or stopped`),
		changed(func(b *LeaseStopped) { b.By = "nobody" }, `by is "nobody"; write customer, provider, fault, arrears or expired`),
		changed(func(b *DeviceDeclared) { b.Device = "" }, "device is missing"),
		changed(func(b *DeviceDeclared) { b.At = 0 }, "at is missing"),
		changed(func(b *DeviceDeclared) { b.SaleableMilli = 0 }, "saleable_milli is 0; it goes from 1 to 64000, and 1000 sells the device once"),
		changed(func(b *DeviceDeclared) { b.SaleableMilli = -1000 }, "saleable_milli is -1000; it goes from 1 to 64000"),
		changed(func(b *DeviceDeclared) { b.SaleableMilli = 64_001 }, "saleable_milli is 64001; it goes from 1 to 64000"),
		changed(func(b *NodeEnrolled) { b.Node = "" }, "node is missing"),
		changed(func(b *NodeEnrolled) { b.PublicKey = PublicKey{} }, "public_key is missing"),
		changed(func(b *NodeEnrolled) { b.By = "" }, "by is missing"),
		changed(func(b *NodeEnrolled) { b.Note = strings.Repeat("x", MaxNoteBytes+1) }, "note has 4097 bytes"),
		changed(func(b *NodeRevoked) { b.Node = long }, "node has 257 bytes"),
		changed(func(b *NodeRevoked) { b.PublicKey = PublicKey{} }, "public_key is missing"),
		changed(func(b *NodeRevoked) { b.By = "" }, "by is missing"),
		changed(func(b *PackageEnded) { b.Purchase = "" }, "purchase is missing"),
		changed(func(b *PackageEnded) { b.By = ByFault }, `by is "fault"; write customer or provider`),
		changed(func(b *ContractTerminated) { b.At = 0 }, "at is missing"),
		changed(func(b *ContractTerminated) { b.By = "" }, `by is ""; write customer or provider`),
		changed(func(b *RefusalWaived) { b.To = b.From }, "to 2026-02-25T06:13:20Z is not after from 2026-02-25T06:13:20Z"),
		changed(func(b *RefusalWaived) { b.By = "" }, "by is missing"),
		changed(func(b *RefusalWaived) { b.Note = strings.Repeat("x", MaxNoteBytes+1) }, "note has 4097 bytes"),
		changed(func(b *RefusalCarried) { b.PeriodStart = 0 }, "period_start is missing"),
		changed(func(b *RefusalCarried) { b.Note = "\xff" }, "note is not valid UTF-8"),
	})
}

func manyLabels() map[string]string {
	all := map[string]string{}
	for i := range MaxLabels + 1 {
		all[strings.Repeat("l", i+1)] = ""
	}
	return all
}

func TestDecidedRefused(t *testing.T) {
	checkRefused(t, []change{
		changed(func(b *CustomerHalted) { b.Customer = "" }, "customer is missing"),
		changed(func(b *CustomerHalted) { b.Reason = "" }, "reason is missing"),
		changed(func(b *CutRequested) { b.Cut = "" }, "cut is missing"),
		changed(func(b *CutDone) { b.At = 0 }, "at is missing"),
		changed(func(b *CutDone) { b.Totals[0].Customer = "\xff" }, "totals[0].customer is not valid UTF-8"),
		changed(func(b *CutDone) { b.Totals[0].LeasedMilliGPUSeconds = -1 }, "totals[0].leased_milli_gpu_seconds is -1; time held is not negative"),
		changed(func(b *CutDone) { b.Totals[0].PeriodStart = -1 }, "totals[0].period_start lies outside 1970 to 9999"),
		changed(func(b *PeriodClosed) { b.N = -1 }, "n is -1; closings count from 0"),
		changed(func(b *PeriodClosed) { b.PeriodEnd = b.PeriodStart }, "is not after period_start"),
		changed(func(b *PeriodClosed) { b.PeriodStart = 0 }, "period_start is missing"),
		changed(func(b *PeriodClosed) { b.Cut = "" }, "cut is missing"),
		changed(func(b *InvoiceIssued) { b.Series = "" }, "series is missing"),
		changed(func(b *InvoiceIssued) { b.Number = 0 }, "number is missing; invoices of a series count from 1"),
		changed(func(b *InvoiceIssued) { b.Document = nil }, "document is missing"),
		changed(func(b *InvoiceIssued) { b.Closing = strings.Repeat("c", MaxKeyBytes+1) }, "closing has 1025 bytes"),
		changed(func(b *InvoiceRecovered) { b.Incarnation = 1 }, "incarnation is 1; a log is born in its first"),
		changed(func(b *InvoiceRecovered) { b.Series = "" }, "series is missing"),
		changed(func(b *InvoiceRecovered) { b.Number = 0 }, "number is missing"),
		changed(func(b *InvoiceRecovered) { b.Document = nil }, "document is missing"),
		changed(func(b *LogRecovered) { b.Incarnation = 0 }, "incarnation is 0"),
		changed(func(b *LogRecovered) { b.By = "" }, "by is missing"),
		changed(func(b *LogRecovered) { b.Reason = "" }, "reason is missing; say what happened"),
		changed(func(b *LogRecovered) { b.Reason = strings.Repeat("r", MaxNoteBytes+1) }, "reason has 4097 bytes"),
		changed(func(b *AlertRaised) { b.Rule = "" }, "rule is missing"),
		changed(func(b *AlertRaised) { b.WindowSeconds = -1 }, "window_seconds is -1"),
		changed(func(b *AlertResolved) { b.BusyPermille = 1001 }, "busy_permille is 1001; it goes from 0 to 1000"),
		changed(func(b *AlertResolved) { b.KnownPermille = -1 }, "known_permille is -1"),
	})
}

func checkRefused(t *testing.T, changes []change) {
	for _, c := range changes {
		err := c.body.Validate()
		switch {
		case err == nil:
			t.Errorf("%s was taken, want %q", c.body.Type(), c.want)
		case !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: error %q, want one line about %q", c.body.Type(), err, c.want)
		}
	}
}

// Everything that is wrong with a statement is said at once, one line each.
func TestAllErrorsAtOnce(t *testing.T) {
	err := (&LeaseStopped{}).Validate()
	want := "lease is missing\nat is missing; write it like 2026-02-28T13:00:00Z\nby is \"\"; write customer, provider, fault, arrears or expired"
	if err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// The longest contract id there can be still has a name for its closing.
func TestLongestClosing(t *testing.T) {
	closed := &PeriodClosed{Contract: strings.Repeat("c", MaxNameBytes), PeriodStart: at, PeriodEnd: latest, N: 1 << 40, Cut: "m"}
	invoice := &InvoiceIssued{Series: "EU-2026", Number: 1, Customer: "acme", Closing: closed.Key(), Document: []byte("{}")}
	for _, b := range []Body{closed, invoice} {
		if err := (Fact{Key: "closing/" + closed.Key(), Body: b}).Validate(); err != nil {
			t.Error(err)
		}
	}
}
