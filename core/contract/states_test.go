package contract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

const disk = "meters: [{name: disk, price: 0.35/GB-month}, {name: egress, price: 1/GB}], "

// What a clause leaves out is what a contract without it means: a running lease is whole, and the other states are nothing.
func TestStates(t *testing.T) {
	for clauses, want := range map[string]string{
		"": "gpu 1 0 0", "states: {suspended: {}}": "gpu 1 0 0", "states: {suspended: {gpu: 30%}}": "gpu 1 3/10 0",
		"states: {running: {gpu: 90%}, stopped: {gpu: 150%}}": "gpu 9/10 0 3/2",
		// page 3 of the design, and its stopped disk at twice the price
		disk + "states: {running: {gpu: 100%, disk: 100%}, suspended: {gpu: 0%}, stopped: {gpu: 0%, disk: 100%}}": "gpu 1 0 0, disk 1 0 1",
		disk + "states: {stopped: {disk: 200%}}": "gpu 1 0 0, disk 1 0 2",
	} {
		c := parsed(t, metering(clauses))
		got := "gpu"
		for _, s := range contract.LeaseStates() {
			got += " " + c.GPUIn(s).RatString()
		}
		for _, m := range c.Meters {
			parts := ""
			for _, s := range contract.LeaseStates() {
				if part, by := c.MeterIn(m.Name, s); by {
					parts += " " + part.RatString()
				}
			}
			if parts != "" {
				got += ", " + m.Name + parts
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", clauses, got, want)
		}
	}
}

func TestErrorsOfStates(t *testing.T) {
	for _, c := range []struct{ clauses, want string }{
		{"states: {}", "states: it states nothing; write {suspended: {gpu: 30%}} or remove it"},
		{"states: 5%", "states: a mapping is expected"},
		{"states: {halted: {gpu: 5%}}", `unknown field "halted"; remove it; known here: running, suspended, stopped`},
		{"states: {suspendd: {gpu: 5%}}", `unknown field "suspendd", did you mean suspended?`},
		{"states: {suspended: 30%}", "states.suspended: a mapping is expected"},
		{"states: {suspended: {gpu: 0.3}}", `states.suspended.gpu: "0.3" is not a percentage`},
		{"states: {suspended: {gpu: -5%}}", `"-5%" is negative; write 0% or more`},
		{"states: {suspended: {gpu: 10001%}}", "is above 10000%"},
		{"states: {running: {gpu: 0%}}", "states.running.gpu: a running lease would bill nothing and hold no GPU; write 100%, or a price of 0 in the rate"},
		{"states: {stopped: {disk: 100%}}", "states.stopped.disk: the contract has no meter of this name; write gpu, or name a time-weighted meter of the contract"},
		{disk + "states: {stopped: {dsk: 100%}}", "states.stopped.dsk: the contract has no meter of this name; did you mean disk?"},
		{disk + "states: {stopped: {volume: 100%}}", "the contract has no meter of this name; write one of gpu, disk"},
		{disk + "states: {stopped: {egress: 100%}}", "states.stopped.egress: the meter's aggregate is sum, and only a time_weighted one can be weighted by state; " +
			"remove it here, or price the meter per GB-month or GB-hour"},
		{"meters: [{name: gpu, price: 1/GB-hour}], states: {stopped: {gpu: 1%}}", "`gpu` means GPU time here, and a meter is called so; give the meter another name"},
	} {
		_, err := contract.Parse("c1.yaml", []byte(metering(c.clauses)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.clauses, err, c.want)
		}
	}
}

// A default that is written out is no change; another part is one.
func TestStatesAreCompared(t *testing.T) {
	was := parsed(t, metering(disk+"states: {stopped: {disk: 200%}}"))
	if got := contract.Compare(was, parsed(t, metering(disk+"states: {running: {gpu: 100%, disk: 100%}, stopped: {gpu: 0%, disk: 200%}}"))); got != nil {
		t.Errorf("a default that is written out: %v", got)
	}
	want := []contract.Change{{Clause: "states", Of: "suspended", Field: "disk", Was: "0%", Is: "50%"}, {Clause: "states", Of: "suspended", Field: "gpu", Was: "0%", Is: "30%"}}
	got := contract.Compare(was, parsed(t, metering(disk+"states: {suspended: {gpu: 30%, disk: 50%}, stopped: {disk: 200%}}")))
	if len(got) == 2 && got[0].Field == "gpu" {
		got[0], got[1] = got[1], got[0]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The life of a lease cuts a meter's time where its part changes; a register of an earlier position knows what was stated until then.
func TestPortions(t *testing.T) {
	r := contract.NewRegister()
	c := parsed(t, metering(disk+"states: {suspended: {disk: 50%}, stopped: {disk: 200%}}"))
	at := func(n int64) span.Second { return c.Term.From + span.Second(n) }
	changes := map[uint64]int{}
	for i, b := range []fact.Body{
		&fact.ContractSigned{Contract: c.ID, Customer: c.Customer, Document: string(c.Source)},
		&fact.MeterRecorded{Contract: c.ID, Meter: "disk", Resource: "L", At: at(0), Quantity: "1"},
		&fact.LeaseStateChanged{Lease: "L", At: at(30), State: fact.Halted}, // before the start is known
		&fact.LeaseStarted{Lease: "L", Customer: c.Customer, At: at(10), SKU: "a100"},
		&fact.LeaseStateChanged{Lease: "L", At: at(20), State: fact.Suspended},
		&fact.LeaseStopped{Lease: "L", At: at(40), By: fact.ByCustomer},
		&fact.LeaseStarted{Lease: "M", Customer: "another", At: at(10), SKU: "a100"},
	} {
		seq := uint64(i + 1)
		changes[seq] = len(r.Apply(fact.Fact{Seq: seq, Key: fmt.Sprint(seq), Body: b}))
	}
	if diff := cmp.Diff(map[uint64]int{1: 1, 2: 1, 3: 0, 4: 1, 5: 1, 6: 1, 7: 0}, changes); diff != "" {
		t.Errorf("changed contracts by position (-want +got)\n%s", diff)
	}
	for _, x := range []struct {
		before          uint64
		meter, resource string
		want            string
	}{
		{9, "disk", "L", "0-10, 10-20 running 1, 20-30 suspended 1/2, 30-40 stopped 2, 40-50"},
		{6, "disk", "L", "0-10, 10-20 running 1, 20-30 suspended 1/2, 30-50 stopped 2"},
		{5, "disk", "L", "0-10, 10-30 running 1, 30-50 stopped 2"},
		{4, "disk", "L", "0-50"},
		{9, "disk", "M", "0-50"}, // another customer's
		{9, "disk", "x", "0-50"},
		{9, "egress", "L", "0-50"},
	} {
		var parts []string
		for _, p := range r.Before(x.before).Portions(c, x.meter, x.resource, span.Span{From: at(0), To: at(50)}) {
			text := fmt.Sprintf("%d-%d", p.From-at(0), p.To-at(0))
			if p.Part != nil {
				text += " " + string(p.State) + " " + p.Part.RatString()
			}
			parts = append(parts, text)
		}
		if got := strings.Join(parts, ", "); got != x.want {
			t.Errorf("before %d, %s of %s: %s, want %s", x.before, x.meter, x.resource, got, x.want)
		}
	}
}
