package codec

import (
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// received is a publication as a stream would give it back.
func received(p bus.Publication) bus.Message {
	m := bus.Message{Stream: bus.Facts, Seq: 7, Subject: p.Subject, Header: maps.Clone(p.Header), Data: p.Data}
	if !strings.HasPrefix(p.Subject, factPrefix) {
		m.Stream = bus.Usage
	}
	return m
}

func TestFactRoundTrip(t *testing.T) {
	for _, typ := range types {
		t.Run(string(typ), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := draw{t}
				want := fact.Fact{Key: d.name(), Body: d.body(typ)}
				p, err := EncodeFact(want)
				if err != nil {
					t.Fatal(err)
				}
				if stream, err := p.Check(); err != nil || stream != bus.Facts {
					t.Fatalf("the bus would not take it: %s, %v", stream, err)
				}
				want.Seq, want.Hash = 7, fact.HashBytes(typ, p.Data)
				got, err := DecodeFact(received(p))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("fact changed (-want +got):\n%s", diff)
				}
				again, err := EncodeFact(got)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(p, again); diff != "" {
					t.Fatalf("the same fact has two forms (-first +second):\n%s", diff)
				}
			})
		})
	}
}

const at span.Second = 1_772_000_000 // 2026-02-25T06:13:20Z

// samples is a valid body of each type, in the order of types.
func samples() []fact.Body {
	devices := []fact.Share{{Node: "node7", Device: "GPU-0", ShareMilli: 1000}, {Node: "node7", Device: "GPU-1", ShareMilli: 143}}
	alert := fact.Alert{
		Rule: "idle", Scope: "lease", Target: "l1", Customer: "acme", At: at, WindowSeconds: 900, BusyPermille: 12, KnownPermille: 990,
	}
	return []fact.Body{
		&fact.ClockDeclared{Mode: fact.Wall},
		&fact.TimeResumed{At: at, By: "ops-2"},
		&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: "sku: h100\n"},
		&fact.ContractAmended{Contract: "c1", Effective: at, Document: "sku: h200\n"},
		&fact.LeaseStarted{
			Lease: "l1", Customer: "acme", Contract: "c1", SKU: "h100-80g", PricingMode: "on_demand", Region: "eu-1", ServiceTier: "gold",
			Dedicated: true, At: at, Devices: devices, Labels: map[string]string{"team": "vision", "job": ""},
		},
		&fact.LeaseResized{Lease: "l1", At: at, Count: 8, ShareMilli: 500},
		&fact.LeaseStateChanged{Lease: "l1", At: at, State: fact.Suspended},
		&fact.LeaseStopped{Lease: "l1", At: at, By: fact.ByFault},
		&fact.RefusalWaived{Lease: "l1", From: at, To: at + 60, By: "ops-2", Note: "goodwill"},
		&fact.RefusalCarried{Contract: "c1", PeriodStart: at, By: "ops-2", Note: "later"},
		&fact.CustomerHalted{Customer: "acme", Reason: "assertion broken", Block: 12},
		&fact.CutRequested{Cut: "2026-03", At: at},
		&fact.CutDone{
			Cut: "2026-03", At: at, Block: 99, Digest: fact.HashBytes("x", nil),
			Totals: []fact.Total{{Contract: "c1", Customer: "acme", PeriodStart: at, LeasedMilliGPUSeconds: 3_600_000}},
		},
		&fact.PeriodClosed{Contract: "c1", PeriodStart: at, PeriodEnd: at + 60, N: 1, Cut: "2026-03"},
		&fact.InvoiceIssued{Series: "EU-2026", Number: 17, Customer: "acme", Closing: "c1/2026-02-25T06:13:20Z/1", Document: []byte(`{"total":"1.00"}`)},
		&fact.InvoiceRecovered{
			Incarnation: 2, Series: "EU-2026", Number: 18, Customer: "acme", Closing: "c1/2026-02-25T06:13:20Z/2", Document: []byte(`{"total":"2.00"}`),
		},
		&fact.LogRecovered{Incarnation: 2, By: "ops-2", Reason: "a disk was lost"},
		&fact.AlertRaised{Alert: alert},
		&fact.AlertResolved{Alert: alert},
		&fact.PriceBookPublished{Book: "list-cn", Effective: 1_772_000_000, Document: "currency: CNY\n"},
		&fact.SpotPriceChanged{Index: "h100-80g", Region: "eu-1", At: 1_772_000_000, Currency: "USD", Price: "1.2345/gpu-hour"},
		&fact.MeterRecorded{Contract: "c1", Meter: "egress", Resource: "bucket-7", At: 1_772_000_000, Quantity: "12.5"},
		&fact.PackagePurchased{Contract: "c1", Package: "week", At: 1_772_000_000, Count: 2},
		&fact.PackageEnded{Contract: "c1", Purchase: "c1/week/1", At: 1_772_000_000, By: fact.ByCustomer},
		&fact.ContractTerminated{Contract: "c1", At: 1_772_000_000, By: fact.ByProvider},
		&fact.DeviceDeclared{Device: "GPU-0", At: 1_772_000_000, SaleableMilli: 2000},
		&fact.NodeEnrolled{Node: "node7", PublicKey: fact.PublicKey{1, 31: 2}, By: "ops-2", Note: "rack 4"},
		&fact.NodeRevoked{Node: "node7", PublicKey: fact.PublicKey{1, 31: 2}, By: "ops-2", Note: "stolen"},
	}
}

// The bytes of one fact of each type never change. GOLDEN=rewrite is only for a type that is new.
func TestFactGolden(t *testing.T) {
	var b strings.Builder
	for i, body := range samples() {
		if body.Type() != types[i] {
			t.Fatalf("sample %d is %s, want %s", i, body.Type(), types[i])
		}
		p, err := EncodeFact(fact.Fact{Key: "key of " + body.Entity(), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		hash, _ := fact.HashBytes(body.Type(), p.Data).MarshalText()
		b.WriteString(string(body.Type()) + "\n  subject " + p.Subject + "\n  id " + p.Header[headerID] + "\n  body " +
			hex.EncodeToString(p.Data) + "\n  hash " + string(hash) + "\n")
	}
	golden(t, filepath.Join("testdata", "facts.golden"), b.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("GOLDEN") == "rewrite" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is frozen (-frozen +now):\n%s", path, diff)
	}
}

func encoded(t *testing.T, b fact.Body) bus.Message {
	t.Helper()
	p, err := EncodeFact(fact.Fact{Key: "k", Body: b})
	if err != nil {
		t.Fatal(err)
	}
	return received(p)
}

func TestFactRefused(t *testing.T) {
	text := protowire.AppendString
	field := func(data []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(data, n, protowire.VarintType), v)
	}
	length := func(n protowire.Number) []byte { return protowire.AppendTag(nil, n, protowire.BytesType) }
	tests := []struct {
		name   string
		body   int // index of the sample
		change func(m *bus.Message)
		is     error
		want   string
	}{
		{"type", 0, func(m *bus.Message) { m.Header["ce-type"] = "clock.declared.v2" }, ErrUnknown, `type "clock.declared.v2" is unknown`},
		{"field", 0, func(m *bus.Message) { m.Data = field(m.Data, 2, 1) }, ErrUnknown, "a field of ClockDeclared is unknown"},
		{"field of a part", 17, func(m *bus.Message) { m.Data = text(length(1), string(field(nil, 9, 1))) }, ErrUnknown, "a field of Alert is unknown"},
		{"field of a list", 4, func(m *bus.Message) { m.Data = append(m.Data, text(length(10), string(field(nil, 4, 1)))...) }, ErrUnknown, "a field of Share is unknown"},
		{"enum", 0, func(m *bus.Message) { m.Data = field(nil, 1, 3) }, ErrUnknown, "ClockMode 3 is unknown"},
		{"enum of an end", 7, func(m *bus.Message) { m.Data = field(m.Data, 3, 6) }, ErrUnknown, "EndedBy 6 is unknown"},
		{"enum of a state", 6, func(m *bus.Message) { m.Data = field(m.Data, 3, 4) }, ErrUnknown, "LeaseState 4 is unknown"},
		{"unspecified", 0, func(m *bus.Message) { m.Data = nil }, ErrBody, `mode is ""`},
		{"no protobuf", 0, func(m *bus.Message) { m.Data = []byte{0xff} }, ErrBody, "clock.declared.v1: the body"},
		{"not text", 1, func(m *bus.Message) { m.Data = text(length(2), "\xff") }, ErrBody, "UTF-8"},
		{"invalid", 7, func(m *bus.Message) { m.Data = field(m.Data, 2, 0) }, ErrBody, "at is missing"},
		{"labels out of order", 4, func(m *bus.Message) { m.Data = append(m.Data, text(length(13), "")...) }, ErrBody, `label "" does not come after "team"`},
		{"short digest", 12, func(m *bus.Message) { m.Data = append(m.Data, text(length(4), "abc")...) }, ErrBody, "digest has 3 bytes"},
		{"subject", 4, func(m *bus.Message) { m.Subject = "gh.fact.lease.l2" }, ErrEnvelope, "the body belongs to subject gh.fact.lease.l1"},
		{"kind", 12, func(m *bus.Message) { m.Subject = "gh.fact.cut.2026-03" }, ErrEnvelope, "belongs to subject gh.fact.cut_done.2026-03"},
		{"ce-subject", 4, func(m *bus.Message) { m.Header["ce-subject"] = "l2" }, ErrEnvelope, `which is "l2"`},
		{"no headers", 0, func(m *bus.Message) { m.Header = nil }, ErrEnvelope, `header ce-specversion is ""`},
		{"version", 0, func(m *bus.Message) { m.Header["ce-specversion"] = "2.0" }, ErrEnvelope, "ce-specversion"},
		{"content", 0, func(m *bus.Message) { m.Header["ce-datacontenttype"] = "application/json" }, ErrEnvelope, "ce-datacontenttype"},
		{"no id", 0, func(m *bus.Message) { delete(m.Header, "ce-id") }, ErrEnvelope, "ce-id is missing"},
		{"no source", 0, func(m *bus.Message) { m.Header["ce-source"] = "" }, ErrEnvelope, "ce-source is missing"},
		{"two ids", 0, func(m *bus.Message) { m.Header["CE-ID"] = "other" }, ErrEnvelope, "ce-id is there twice"},
		{"bad escape", 0, func(m *bus.Message) { m.Header["ce-id"] = "a%2" }, ErrEnvelope, "two hex digits"},
		{"control character in the key", 0, func(m *bus.Message) { m.Header["ce-id"] = "a%0A" }, ErrBody, "control character"},
		{"long key", 0, func(m *bus.Message) { m.Header["ce-id"] = strings.Repeat("k", 1025) }, ErrBody, "key has 1025 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := encoded(t, samples()[tt.body])
			tt.change(&m)
			f, err := DecodeFact(m)
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "decode fact 7 on gh.fact.") {
				t.Errorf("error %v, want %q about %q", err, tt.is, tt.want)
			}
			if f.Body != nil {
				t.Errorf("a refused fact gave %+v", f)
			}
		})
	}
}

func TestEncodeFactRefuses(t *testing.T) {
	for _, f := range []fact.Fact{
		{Key: "", Body: &fact.CutRequested{Cut: "m", At: at}},
		{Key: "k", Body: &fact.CutRequested{Cut: "m"}},
	} {
		if p, err := EncodeFact(f); !errors.Is(err, ErrBody) || p.Subject != "" {
			t.Errorf("EncodeFact(%+v) = %+v, %v", f, p, err)
		}
	}
}

// The hash covers what was received: the same statement with its fields in another order is another content.
func TestHashOfBytesAsReceived(t *testing.T) {
	m := encoded(t, &fact.CutRequested{Cut: "m", At: at})
	first, err := DecodeFact(m)
	if err != nil {
		t.Fatal(err)
	}
	_, _, n := protowire.ConsumeField(m.Data)
	m.Data = append(append([]byte(nil), m.Data[n:]...), m.Data[:n]...)
	second, err := DecodeFact(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Body, second.Body); diff != "" || first.Hash == second.Hash {
		t.Errorf("hashes %x and %x of bodies (-first +second):\n%s", first.Hash, second.Hash, diff)
	}
}

func TestHeaderNamesFold(t *testing.T) {
	m := encoded(t, &fact.CutRequested{Cut: "m", At: at})
	want, err := DecodeFact(m)
	if err != nil {
		t.Fatal(err)
	}
	folded := map[string]string{"Ce-Traceparent": "00-1", "X-Note": "%zz"}
	for name, value := range m.Header {
		folded[strings.ToUpper(name)] = value
	}
	m.Header = folded
	got, err := DecodeFact(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fact (-want +got):\n%s", diff)
	}
}

func FuzzDecodeFact(f *testing.F) {
	for _, b := range samples() {
		p, err := EncodeFact(fact.Fact{Key: "k " + b.Entity(), Body: b})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Header[headerType], p.Header[headerID], p.Subject, p.Header[headerSubject], p.Data)
	}
	f.Fuzz(func(t *testing.T, typ, id, subject, entity string, data []byte) {
		got, err := DecodeFact(bus.Message{Seq: 7, Subject: subject, Data: data, Header: map[string]string{
			headerSpec: specVersion, headerID: id, headerSource: source, headerType: typ, headerSubject: entity, headerContent: contentType,
		}})
		if err != nil {
			if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrEnvelope) && !errors.Is(err, ErrBody) {
				t.Errorf("untyped error %v", err)
			}
			return
		}
		p, err := EncodeFact(got)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		again, err := DecodeFact(received(p))
		if err != nil {
			t.Fatalf("written but not read: %v", err)
		}
		got.Hash = again.Hash // other bytes may say the same
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("fact (-first +second):\n%s", diff)
		}
	})
}
