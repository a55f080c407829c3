package codec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// The numbers come from another implementation of fnv1a32; they are frozen.
func TestPartition(t *testing.T) {
	for node, want := range map[string]int{"": 5, "a": 44, "foobar": 40, "node7": 14, "node8": 47} {
		if got := Partition(node); got != want {
			t.Errorf("Partition(%q) = %d, want %d", node, got, want)
		}
	}
}

// The tokens come from another implementation of base32 and SHA-256; they are frozen.
func TestToken(t *testing.T) {
	tests := []struct{ id, want string }{
		{"node7", "node7"},
		{"Rack-2_n", "Rack-2_n"},
		{"", "="},
		{"a.b", "=mexge"},
		{"显卡", "=42ml5zmnue"},
		{"=mexge", "=hvwwk6dhmu"},
		{strings.Repeat("n", 200), strings.Repeat("n", 200)},
		{strings.Repeat("n", 201), "=h291c4194382c6bd5c12b872660b0fb6d2316508d4632c9b289ed5928c2588b1b"},
		{strings.Repeat(".", 124), "=" + strings.Repeat("fyxc4lro", 24) + "fyxc4lq"},
		{strings.Repeat(".", 125), "=hc7cb0f9cf4d2cb79d4c8c5329efd912aaf9cad38341c24f8b820e1a4b3d1e39e"},
	}
	for _, tt := range tests {
		if got := Token(tt.id); got != tt.want {
			t.Errorf("Token(%q) = %s, want %s", tt.id, got, tt.want)
		}
	}
}

// Different ids have different tokens, and every token is one the bus takes.
func TestTokenIsOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`=h?[a-z2-7]{0,70}`), rapid.StringN(100, 300, -1))
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		if (Token(a) == Token(b)) != (a == b) {
			t.Fatalf("%q and %q have tokens %q and %q", a, b, Token(a), Token(b))
		}
		if len(Token(a)) > maxTokenBytes {
			t.Fatalf("token of %d bytes", len(Token(a)))
		}
		if b := UsageSubject(a); a != "" {
			if stream, err := bus.CheckSubject(b); err != nil || stream != bus.Usage {
				t.Fatalf("subject %q: %s, %v", b, stream, err)
			}
		}
	})
}

func TestFactSubject(t *testing.T) {
	tests := []struct {
		body fact.Body
		want string
	}{
		{&fact.ClockDeclared{}, "gh.fact.clock.log"},
		{&fact.TimeResumed{}, "gh.fact.clock.log"},
		{&fact.ContractSigned{Contract: "c1"}, "gh.fact.contract.c1"},
		{&fact.ContractAmended{Contract: "c1"}, "gh.fact.contract.c1"},
		{&fact.LeaseStarted{Lease: "l1"}, "gh.fact.lease.l1"},
		{&fact.LeaseResized{Lease: "l1"}, "gh.fact.lease.l1"},
		{&fact.LeaseStateChanged{Lease: "l1"}, "gh.fact.lease.l1"},
		{&fact.LeaseStopped{Lease: "l1"}, "gh.fact.lease.l1"},
		{&fact.RefusalWaived{Lease: "l1"}, "gh.fact.refusal.l1"},
		{&fact.RefusalCarried{Contract: "c1"}, "gh.fact.refusal.c1"},
		{&fact.PriceBookPublished{Book: "list"}, "gh.fact.price_book.list"},
		{&fact.SpotPriceChanged{Index: "h100"}, "gh.fact.spot.h100"},
		{&fact.MeterRecorded{Contract: "c1"}, "gh.fact.meter.c1"},
		{&fact.PackagePurchased{Contract: "c1"}, "gh.fact.package.c1"},
		{&fact.PackageEnded{Contract: "c1"}, "gh.fact.package.c1"},
		{&fact.ContractTerminated{Contract: "c1"}, "gh.fact.contract.c1"},
		{&fact.DeviceDeclared{Device: "GPU-0"}, "gh.fact.device.GPU-0"},
		{&fact.NodeEnrolled{Node: "node7"}, "gh.fact.node.node7"},
		{&fact.NodeRevoked{Node: "node7"}, "gh.fact.node.node7"},
		{&fact.CustomerHalted{Customer: "acme"}, "gh.fact.customer.acme"},
		{&fact.CutRequested{Cut: "m"}, "gh.fact.cut.m"},
		{&fact.CutDone{Cut: "m"}, "gh.fact.cut_done.m"},
		{&fact.PeriodClosed{Contract: "c1", PeriodStart: 1_772_323_200, N: 1}, "gh.fact.closing.=mmys6mrqgi3c2mbtfuydcvbqga5damb2gayfulzr"},
		{&fact.InvoiceIssued{Series: "EU-2026"}, "gh.fact.invoice.EU-2026"},
		{&fact.InvoiceRecovered{Series: "EU-2026"}, "gh.fact.invoice.EU-2026"},
		{&fact.LogRecovered{Incarnation: 2}, "gh.fact.log.log"},
		{&fact.AlertRaised{Alert: fact.Alert{Rule: "idle", Scope: "lease", Target: "l1"}}, "gh.fact.alert.=nfsgyzjpnrswc43ff5wdc"},
		{&fact.AlertResolved{Alert: fact.Alert{Rule: "idle", Scope: "lease", Target: "l1"}}, "gh.fact.alert.=nfsgyzjpnrswc43ff5wdc"},
	}
	if len(tests) != len(types) {
		t.Errorf("%d subjects for %d types", len(tests), len(types))
	}
	for _, tt := range tests {
		got := FactSubject(tt.body)
		if got != tt.want {
			t.Errorf("%s on %s, want %s", tt.body.Type(), got, tt.want)
		}
		if stream, err := bus.CheckSubject(got); err != nil || stream != bus.Facts {
			t.Errorf("subject %q: %s, %v", got, stream, err)
		}
	}
}
