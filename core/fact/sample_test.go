package fact

import "github.com/gpuhour/gpuhour/core/span"

const at span.Second = 1_772_000_000

// samples is a valid body of each type, in the order of the closed list.
func samples() []Body {
	devices := []Share{{Node: "node7", Device: "GPU-0", ShareMilli: 1000}, {Node: "node7", Device: "GPU-1", ShareMilli: 143}}
	alert := Alert{Rule: "idle", Scope: "lease", Target: "l1", Customer: "acme", At: at, WindowSeconds: 900, BusyPermille: 12, KnownPermille: 990}
	return []Body{
		&ClockDeclared{Mode: Wall},
		&TimeResumed{At: at, By: "ops-2"},
		&ContractSigned{Contract: "c1", Customer: "acme", Document: "term:\n  start: 2026-01-01\n"},
		&ContractAmended{Contract: "c1", Effective: at, Document: "term:\n  start: 2026-01-01\n"},
		&LeaseStarted{
			Lease: "l1", Customer: "acme", Contract: "c1", SKU: "h100-80g", PricingMode: "on_demand", Region: "eu-1", ServiceTier: "gold",
			Dedicated: true, At: at, Devices: devices, Labels: map[string]string{"team": "vision", "empty": ""},
		},
		&LeaseResized{Lease: "l1", At: at, Count: 8, ShareMilli: 1000},
		&LeaseStateChanged{Lease: "l1", At: at, State: Suspended},
		&LeaseStopped{Lease: "l1", At: at, By: ByFault},
		&DeviceDeclared{Device: "GPU-0", At: at, SaleableMilli: 2000},
		&NodeEnrolled{Node: "node7", PublicKey: PublicKey{1, 31: 2}, By: "ops-2", Note: "rack 4"},
		&NodeRevoked{Node: "node7", PublicKey: PublicKey{1, 31: 2}, By: "ops-2"},
		&RefusalWaived{Lease: "l1", From: at, To: at + 60, By: "ops-2", Note: "goodwill"},
		&RefusalCarried{Contract: "c1", PeriodStart: at, By: "ops-2"},
		&PriceBookPublished{Book: "list-cn", Effective: at, Document: "currency: CNY\n"},
		&SpotPriceChanged{Index: "h100-80g", Region: "eu-1", At: at, Currency: "USD", Price: "1.2345/gpu-hour"},
		&MeterRecorded{Contract: "c1", Meter: "egress", Resource: "bucket-7", At: at, Quantity: "12.5"},
		&PackagePurchased{Contract: "c1", Package: "week", At: at, Count: 2},
		&PackageEnded{Contract: "c1", Purchase: "c1/week/1", At: at, By: ByCustomer},
		&ContractTerminated{Contract: "c1", At: at, By: ByProvider},
		&CustomerHalted{Customer: "acme", Reason: "assertion broken", Block: 12},
		&CutRequested{Cut: "2026-03", At: at},
		&CutDone{
			Cut: "2026-03", At: at, Block: 99, Digest: Hash{1, 2, 31: 9},
			Totals: []Total{{Contract: "c1", Customer: "acme", PeriodStart: at, LeasedMilliGPUSeconds: 3_600_000}},
		},
		&PeriodClosed{Contract: "c1", PeriodStart: at, PeriodEnd: at + 60, N: 1, Cut: "2026-03"},
		&InvoiceIssued{Series: "EU-2026", Number: 17, Customer: "acme", Closing: "c1/2026-03-01T00:00:00Z/1", Document: []byte(`{"total":"1.00"}`)},
		&InvoiceRecovered{
			Incarnation: 2, Series: "EU-2026", Number: 18, Customer: "acme", Closing: "c1/2026-03-01T00:00:00Z/2", Document: []byte(`{"total":"2.00"}`),
		},
		&LogRecovered{Incarnation: 2, By: "ops-2", Reason: "a disk was lost"},
		&AlertRaised{alert},
		&AlertResolved{alert},
	}
}
