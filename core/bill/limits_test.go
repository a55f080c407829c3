package bill_test

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

// Four launches of 88.400 each under a limit of 5,000.000 with 4,752.720 spent: together they pass it, two of them do not. The figures
// are those of case B66, a thousand times as large.
func TestWorstCaseOfALimit(t *testing.T) {
	c, err := contract.Parse("c", []byte("{contract: c, customer: a, currency: KWD, timezone: UTC, term: {from: 2026-01-01, to: 2027-01-01}, "+
		"rates: [{sku: a100, on_demand: 1/gpu-hour}], limits: {spend: 5000/month, action: stop, overshoot: 0, alert_at: [95%, 100%]}}"))
	if err != nil {
		t.Fatal(err)
	}
	period := c.Period(c.Term.From).Span
	amount := func(text string) money.Rounded {
		v, err := money.ParseRounded(text, c.Currency)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for launches, want := range map[int64]string{1: "0.000", 2: "0.000", 3: "17.920", 4: "106.320"} {
		each := money.FromMinor(big.NewInt(88_400*launches), c.Currency)
		d := bill.NewLimit(c, period, amount("4752.720"), &bill.Ahead{At: period.From + 60, Spent: amount("4752.720").Add(each)})
		if d.Ahead.Overshoot != want {
			t.Errorf("%d launches overshoot by %s, want %s", launches, d.Ahead.Overshoot, want)
		}
		if diff := cmp.Diff([]string{"95%"}, d.Reached); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if d := bill.NewLimit(c, period, amount("-1.000"), nil); d.Used != "-0.02%" || len(d.Reached) != 0 || d.Ahead != nil {
		t.Errorf("below nothing: %+v", d)
	}
	if d := bill.NewLimit(c, period, amount("1666.667"), nil); d.Used != "33.33334%" || d.UsedExact != "1666667/5000000" {
		t.Errorf("%+v", d)
	}
}

// SeenAll prices what nobody saw and nothing else.
func TestSeenAll(t *testing.T) {
	totals := []meter.Total{
		{Key: meter.ChargeKey{Standing: meter.Unobserved, Reason: meter.ReasonNotSeen}},
		{Key: meter.ChargeKey{Standing: meter.Refused, Reason: "no_rate"}},
		{Key: meter.ChargeKey{Standing: meter.Priced}},
	}
	bill.SeenAll(totals)
	for i, want := range []meter.ChargeKey{{Standing: meter.Priced}, {Standing: meter.Refused, Reason: "no_rate"}, {Standing: meter.Priced}} {
		if totals[i].Key != want {
			t.Errorf("%+v, want %+v", totals[i].Key, want)
		}
	}
}

// A cancellation has no limit: what it takes back was said in the invoice.
func TestCancellationHasNoLimit(t *testing.T) {
	d := &bill.Document{Currency: "USD", Total: "0.00", Limit: &bill.DocumentLimit{}}
	if out, err := d.Cancellation(); err != nil || out.Limit != nil || d.Limit == nil {
		t.Errorf("%+v, %v", out, err)
	}
}
