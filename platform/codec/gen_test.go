package codec

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// types is the closed list, in the order of core/fact.
//
//tidy:const
var types = []fact.Type{
	fact.TypeClockDeclared, fact.TypeTimeResumed, fact.TypeContractSigned, fact.TypeContractAmended, fact.TypeLeaseStarted,
	fact.TypeLeaseResized, fact.TypeLeaseStateChanged, fact.TypeLeaseStopped, fact.TypeRefusalWaived, fact.TypeRefusalCarried,
	fact.TypeCustomerHalted, fact.TypeCutRequested, fact.TypeCutDone, fact.TypePeriodClosed, fact.TypeInvoiceIssued,
	fact.TypeInvoiceRecovered, fact.TypeLogRecovered, fact.TypeAlertRaised, fact.TypeAlertResolved,
	fact.TypePriceBookPublished, fact.TypeSpotPriceChanged, fact.TypeMeterRecorded, fact.TypePackagePurchased,
	fact.TypePackageEnded, fact.TypeContractTerminated, fact.TypeDeviceDeclared,
	fact.TypeNodeEnrolled, fact.TypeNodeRevoked,
}

// draw makes valid parts of facts. Names hold what subjects and headers must guard: dots, quotes, other scripts.
type draw struct{ *rapid.T }

func (d draw) name() string {
	plainName := rapid.StringMatching(`[a-zA-Z0-9_-]{1,12}`)
	return rapid.OneOf(plainName, rapid.StringMatching(`[ -~äß显卡]{1,20}`), rapid.StringMatching(`[a-z.%" ]{150,250}`)).Draw(d.T, "name")
}

func (d draw) optional() string {
	if d.flag() {
		return ""
	}
	return d.name()
}

func (d draw) flag() bool { return rapid.Bool().Draw(d.T, "flag") }
func (d draw) instant() span.Second {
	return span.Second(rapid.Int64Range(1, int64(latest)).Draw(d.T, "instant"))
}

func (d draw) publicKey() (k fact.PublicKey) {
	k[0] = 1 // none is all zero
	copy(k[1:], rapid.SliceOfN(rapid.Byte(), 31, 31).Draw(d.T, "public key"))
	return k
}
func (d draw) share() int64   { return rapid.Int64Range(1, 1000).Draw(d.T, "share") }
func (d draw) number() uint64 { return rapid.Uint64Min(1).Draw(d.T, "number") }
func (d draw) text() string   { return rapid.StringN(1, 40, -1).Draw(d.T, "text") }
func (d draw) one(words ...string) string {
	return rapid.SampledFrom(words).Draw(d.T, "word")
}

// holding is a list of devices, or a count and a share.
func (d draw) holding() (devices []fact.Share, count, share int64) {
	if d.flag() {
		return nil, rapid.Int64Range(1, fact.MaxDevices).Draw(d.T, "count"), d.share()
	}
	for _, device := range rapid.SliceOfNDistinct(rapid.StringMatching(`GPU-[0-9]{1,3}`), 1, 5, rapid.ID[string]).Draw(d.T, "devices") {
		devices = append(devices, fact.Share{Node: d.name(), Device: device, ShareMilli: d.share()})
	}
	return devices, 0, 0
}

func (d draw) labels() map[string]string {
	var all map[string]string
	for range rapid.IntRange(0, 4).Draw(d.T, "labels") {
		if all == nil {
			all = map[string]string{}
		}
		all[d.name()] = d.optional()
	}
	return all
}

func (d draw) period() (from, to span.Second) {
	from = span.Second(rapid.Int64Range(1, int64(latest)-1).Draw(d.T, "from"))
	return from, span.Second(rapid.Int64Range(int64(from)+1, int64(latest)).Draw(d.T, "to"))
}

func (d draw) stated(t fact.Type) fact.Body {
	switch t {
	case fact.TypeClockDeclared:
		return &fact.ClockDeclared{Mode: fact.ClockMode(d.one("wall", "scripted"))}
	case fact.TypeTimeResumed:
		return &fact.TimeResumed{At: d.instant(), By: d.name()}
	case fact.TypeContractSigned:
		return &fact.ContractSigned{Contract: d.name(), Customer: d.name(), Document: d.text()}
	case fact.TypeContractAmended:
		return &fact.ContractAmended{Contract: d.name(), Effective: d.instant(), Document: d.text()}
	case fact.TypeLeaseStarted:
		b := &fact.LeaseStarted{
			Lease: d.name(), Customer: d.name(), Contract: d.optional(), SKU: d.name(), PricingMode: d.name(), Region: d.optional(),
			ServiceTier: d.optional(), Dedicated: d.flag(), At: d.instant(), Labels: d.labels(),
		}
		b.Devices, b.Count, b.ShareMilli = d.holding()
		return b
	case fact.TypeLeaseResized:
		b := &fact.LeaseResized{Lease: d.name(), At: d.instant()}
		b.Devices, b.Count, b.ShareMilli = d.holding()
		return b
	case fact.TypeLeaseStateChanged:
		return &fact.LeaseStateChanged{Lease: d.name(), At: d.instant(), State: fact.LeaseState(d.one("running", "suspended", "stopped"))}
	case fact.TypeLeaseStopped:
		return &fact.LeaseStopped{Lease: d.name(), At: d.instant(), By: fact.EndedBy(d.one("customer", "provider", "fault", "arrears", "expired"))}
	case fact.TypeRefusalWaived:
		b := &fact.RefusalWaived{Lease: d.name(), By: d.name(), Note: d.optional()}
		b.From, b.To = d.period()
		return b
	default:
		return &fact.RefusalCarried{Contract: d.name(), PeriodStart: d.instant(), By: d.name(), Note: d.optional()}
	}
}

func (d draw) body(t fact.Type) fact.Body {
	alert := func() fact.Alert {
		return fact.Alert{
			Rule: d.name(), Scope: d.one("lease", "customer"), Target: d.name(), Customer: d.name(), At: d.instant(),
			WindowSeconds: rapid.Int64Min(0).Draw(d.T, "window"), BusyPermille: d.share() - 1, KnownPermille: d.share(),
		}
	}
	switch t {
	case fact.TypePriceBookPublished:
		return &fact.PriceBookPublished{Book: d.name(), Effective: d.instant(), Document: d.name()}
	case fact.TypeSpotPriceChanged:
		return &fact.SpotPriceChanged{Index: d.name(), Region: d.optional(), At: d.instant(), Currency: d.name(), Price: d.name()}
	case fact.TypeMeterRecorded:
		return &fact.MeterRecorded{Contract: d.name(), Meter: d.name(), Resource: d.optional(), At: d.instant(), Quantity: d.name()}
	case fact.TypePackagePurchased:
		return &fact.PackagePurchased{Contract: d.name(), Package: d.name(), At: d.instant(), Count: d.share()}
	case fact.TypeContractTerminated:
		return &fact.ContractTerminated{Contract: d.name(), At: d.instant(), By: fact.EndedBy(d.one("customer", "provider"))}
	case fact.TypeDeviceDeclared:
		return &fact.DeviceDeclared{Device: d.name(), At: d.instant(), SaleableMilli: rapid.Int64Range(1, fact.MaxSaleableMilli).Draw(d.T, "saleable")}
	case fact.TypeNodeEnrolled:
		return &fact.NodeEnrolled{Node: d.name(), PublicKey: d.publicKey(), By: d.name(), Note: d.optional()}
	case fact.TypeNodeRevoked:
		return &fact.NodeRevoked{Node: d.name(), PublicKey: d.publicKey(), By: d.name(), Note: d.optional()}
	case fact.TypePackageEnded:
		return &fact.PackageEnded{Contract: d.name(), Purchase: d.name(), At: d.instant(), By: fact.EndedBy(d.one("customer", "provider"))}
	case fact.TypeCustomerHalted:
		return &fact.CustomerHalted{Customer: d.name(), Reason: d.name(), Block: d.number()}
	case fact.TypeCutRequested:
		return &fact.CutRequested{Cut: d.name(), At: d.instant()}
	case fact.TypeCutDone:
		b := &fact.CutDone{Cut: d.name(), At: d.instant(), Block: d.number(), Digest: fact.HashBytes(t, []byte(d.text()))}
		for range rapid.IntRange(0, 3).Draw(d.T, "totals") {
			b.Totals = append(b.Totals, fact.Total{
				Contract: d.optional(), Customer: d.optional(), PeriodStart: d.instant(),
				LeasedMilliGPUSeconds: rapid.SampledFrom([]int64{0, 1, math.MaxInt64}).Draw(d.T, "leased"),
			})
		}
		return b
	case fact.TypePeriodClosed:
		b := &fact.PeriodClosed{Contract: d.name(), N: rapid.IntMin(0).Draw(d.T, "n"), Cut: d.name()}
		b.PeriodStart, b.PeriodEnd = d.period()
		return b
	case fact.TypeInvoiceIssued:
		return &fact.InvoiceIssued{
			Series: d.name(), Number: d.number(), Customer: d.name(), Closing: d.name(), Document: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(d.T, "document"),
		}
	case fact.TypeInvoiceRecovered:
		return &fact.InvoiceRecovered{
			Incarnation: max(2, d.number()), Series: d.name(), Number: d.number(), Customer: d.name(), Closing: d.name(),
			Document: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(d.T, "document"),
		}
	case fact.TypeLogRecovered:
		return &fact.LogRecovered{Incarnation: max(2, d.number()), By: d.name(), Reason: d.name()}
	case fact.TypeAlertRaised:
		return &fact.AlertRaised{Alert: alert()}
	case fact.TypeAlertResolved:
		return &fact.AlertResolved{Alert: alert()}
	default:
		return d.stated(t)
	}
}

func (d draw) block(device string, spoken span.SecondMask) usage.Block {
	mask := func() span.SecondMask { return span.SecondMask(rapid.Uint64().Draw(d.T, "mask")) }
	b := usage.Block{Device: device, Seen: mask() & spoken}
	b.Seen.Each(func(i int) { b.Busy[i] = uint8(rapid.IntRange(0, 100).Draw(d.T, "busy")) })
	for _, s := range []*usage.Series{&b.Memory, &b.Power, &b.Energy, &b.Throttle} {
		(mask() & b.Seen).Each(func(i int) { s.Set(i, rapid.Int64().Draw(d.T, "value")) })
	}
	return b
}

func (d draw) batch() usage.Batch {
	b := usage.Batch{
		Node: d.name(), Boot: d.optional(), Run: d.number(), Seq: d.number(),
		Minute: span.Minute(rapid.Int64Range(1, int64(latest)/60).Draw(d.T, "minute")), Spoken: d.spoken(),
		Clock: usage.ClockEvidence{
			State: usage.ClockState(rapid.IntRange(0, 3).Draw(d.T, "clock")), OffsetNanos: rapid.Int64().Draw(d.T, "offset"),
			ErrorBoundNano: rapid.Int64Min(0).Draw(d.T, "bound"),
		},
	}
	if b.Run > 1 && d.flag() {
		b.Seq, b.PreviousRun, b.PreviousSeq = 1, rapid.Uint64Range(1, b.Run-1).Draw(d.T, "run before"), d.number()
	}
	for i := range rapid.IntRange(0, 3).Draw(d.T, "devices") {
		block := d.block("GPU-"+string(rune('a'+i)), b.Spoken)
		b.Blocks = append(b.Blocks, block.Append(nil))
	}
	b.Gaps = d.gaps(b.Minute)
	if d.flag() {
		b.Topology = d.topology()
	}
	if d.flag() {
		b.Seed = rapid.SliceOfN(rapid.Byte(), usage.SeedBytes, usage.SeedBytes).Draw(d.T, "seed")
		b.Signature = rapid.SliceOfN(rapid.Byte(), usage.SignatureBytes, usage.SignatureBytes).Draw(d.T, "signature")
	}
	return b
}

func (d draw) gaps(m span.Minute) (all []usage.Gap) {
	for _, device := range []string{"", "GPU-a", "GPU-b"} {
		at := max(m.Start()-1000, 1)
		for range rapid.IntRange(0, 2).Draw(d.T, "gaps") {
			to := rapid.Int64Range(int64(at)+1, int64(at)+500).Draw(d.T, "to")
			reasons := []usage.GapReason{usage.GapTimeout, usage.GapLost, usage.GapStopped, usage.GapPaused}
			all = append(all, usage.Gap{Device: device, From: at, To: span.Second(to), Reason: rapid.SampledFrom(reasons).Draw(d.T, "reason")})
			at = span.Second(to)
		}
	}
	for i := range all {
		all[i].To = min(all[i].To, m.End())
	}
	return slices.DeleteFunc(all, func(g usage.Gap) bool { return g.From >= g.To })
}

func (d draw) topology() *usage.Topology {
	t := &usage.Topology{Source: d.optional(), Driver: d.optional()}
	for i := range rapid.IntRange(0, 3).Draw(d.T, "found") {
		t.Devices = append(t.Devices, usage.Device{
			Name: "GPU-" + string(rune('a'+i)), Parent: d.optional(), Vendor: d.optional(), Model: d.optional(), Serial: d.optional(),
			PCI: d.optional(), Profile: d.optional(), MemoryBytes: rapid.Int64Min(0).Draw(d.T, "memory"),
		})
	}
	return t
}

func (d draw) spoken() span.SecondMask {
	return span.SecondMask(rapid.Uint64().Draw(d.T, "spoken"))&span.FullMinute | 1
}
