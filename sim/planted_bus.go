package sim

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// buggyBus is the log as a service with a mistake would use it.
type buggyBus struct {
	bus.Bus
	bug   Bug
	reads int
	// closed is the latest end of the closed periods met so far
	closed span.Second
}

// Publish implements bus.Bus.
func (b *buggyBus) Publish(ctx context.Context, p bus.Publication) (uint64, error) {
	return b.PublishBatch(ctx, []bus.Publication{p})
}

// PublishBatch implements bus.Bus.
func (b *buggyBus) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	if b.bug == NumberReused {
		ps = slices.Clone(ps)
		for i := range ps {
			if isInvoice(ps[i].Subject) {
				ps[i] = reuse(ps[i])
			}
		}
	}
	last, err := b.Bus.PublishBatch(ctx, ps)
	if b.bug == AmbiguousAsStored && unanswered(err) {
		return 1, nil
	}
	return last, err
}

// reuse gives every fourth invoice the number before its own.
func reuse(p bus.Publication) bus.Publication {
	f, err := codec.DecodeFact(bus.Message{Subject: p.Subject, Header: p.Header, Data: p.Data})
	if err != nil {
		return p
	}
	body, ok := f.Body.(*fact.InvoiceIssued)
	if !ok || body.Number%4 != 0 {
		return p
	}
	issued := *body
	issued.Number--
	d, err := bill.ParseDocument(issued.Document)
	if err != nil {
		return p
	}
	if issued.Document, err = json.Marshal(d.Numbered(issued.Series, issued.Number)); err != nil {
		return p
	}
	out, err := codec.EncodeFact(fact.Fact{Key: f.Key + "/again", Body: &issued})
	if err != nil {
		return p
	}
	out.ExpectLast = p.ExpectLast
	return out
}

// Read implements bus.Bus.
func (b *buggyBus) Read(ctx context.Context, stream string, after uint64, most int) ([]bus.Message, error) {
	ms, err := b.Bus.Read(ctx, stream, after, most)
	if err != nil || most == 1 { // one message is read to check a position
		return ms, err
	}
	b.reads++
	if stream == bus.Facts {
		return b.facts(ctx, ms)
	}
	switch b.bug {
	case TickSkipped:
		if i := slices.IndexFunc(ms, func(m bus.Message) bool { return m.Subject == bus.Tick }); b.reads%5 == 0 && i >= 0 {
			return ms[i+1:], nil
		}
	case FactsPastF:
		return b.pastF(ctx, ms)
	case UnknownAsZero:
		for i := range ms {
			zero(&ms[i])
		}
	case NoiseDropped, PartitionIgnored:
		return b.quarantine(ms), nil
	default:
	}
	return ms, nil
}

// facts are the facts as the mistake reads them.
func (b *buggyBus) facts(ctx context.Context, ms []bus.Message) ([]bus.Message, error) {
	switch b.bug {
	case WindowedDedup:
		return b.dedup(ctx, ms)
	case RoundingKept, TermKept, HaltIgnored, AdvanceKept, AdvanceForgotten, EndedADayLate, PackageKept, DeclarationLost, DeclarationLate:
		for i := range ms {
			f, err := codec.DecodeFact(ms[i])
			if err != nil {
				return nil, err
			}
			f = b.mistake(f)
			p, err := codec.EncodeFact(f)
			if err != nil {
				return nil, err
			}
			ms[i].Header, ms[i].Data = p.Header, p.Data
		}
	default:
	}
	return ms, nil
}

// mistake is a fact as the mistake takes it. One that it does not notice repeats an earlier key.
func (b *buggyBus) mistake(f fact.Fact) fact.Fact {
	const noticed = "clock.declared"
	f.Body = b.misread(f.Body)
	switch body := f.Body.(type) {
	case *fact.PeriodClosed:
		b.closed = max(b.closed, body.PeriodEnd)
	case *fact.CustomerHalted:
		if b.bug == HaltIgnored {
			f.Key = noticed
		}
	case *fact.PackageEnded:
		if b.bug == PackageKept {
			f.Key = noticed
		}
	case *fact.DeviceDeclared:
		if b.bug == DeclarationLost {
			f.Key = noticed
		}
		if b.bug == DeclarationLate {
			late := *body
			late.At = (late.At + 59) / 60 * 60
			f.Body = &late
		}
	case *fact.ContractAmended:
		if b.bug == TermKept && strings.HasSuffix(f.Key, "/term") {
			f.Key = noticed
		}
		if b.bug == RoundingKept && strings.HasSuffix(f.Key, "/rounding") {
			late := *body
			late.Effective = max(late.Effective, b.closed)
			f.Body = &late
		}
	}
	return f
}

// misread is what a mistake makes of fees in advance, and of the day of an end.
func (b *buggyBus) misread(body fact.Body) fact.Body {
	inArrears := func(document string) string { return strings.ReplaceAll(document, "pay: advance", "pay: arrears") }
	switch body := body.(type) {
	case *fact.InvoiceIssued:
		if b.bug == AdvanceKept && strings.HasSuffix(body.Closing, "/0") {
			unknown := *body
			unknown.Closing += "/unknown"
			return &unknown
		}
	case *fact.ContractSigned:
		if b.bug == AdvanceForgotten {
			later := *body
			later.Document = inArrears(later.Document)
			return &later
		}
	case *fact.ContractAmended:
		if b.bug == AdvanceForgotten {
			later := *body
			later.Document = inArrears(later.Document)
			return &later
		}
	case *fact.ContractTerminated:
		if b.bug == EndedADayLate {
			late := *body
			late.At += span.Second(day)
			return &late
		}
	}
	return body
}

// quarantine hides what cannot be read, or believes a batch that came on the subject of another node.
func (b *buggyBus) quarantine(ms []bus.Message) (out []bus.Message) {
	for _, m := range ms {
		_, q := codec.DecodeBatch(m)
		switch wrong := m.Subject != bus.Tick && q != nil; {
		case wrong && b.bug == NoiseDropped:
			continue
		case wrong && q.Reason == usage.WrongPartition:
			m.Subject = codec.UsageSubject(q.Node)
		}
		out = append(out, m)
	}
	return out
}

// ReadSubject implements bus.Bus. A jump of the clock is accepted by whoever finds that a person allowed it.
func (b *buggyBus) ReadSubject(ctx context.Context, stream, subject string, after uint64, most int) ([]bus.Message, error) {
	if b.bug == JumpAccepted && stream == bus.Facts {
		f := fact.Fact{Key: "resumed", Body: &fact.TimeResumed{At: 1, By: "nobody"}}
		p, err := codec.EncodeFact(f)
		return []bus.Message{{Stream: stream, Seq: after + 1, Subject: p.Subject, Header: p.Header, Data: p.Data}}, err
	}
	return b.Bus.ReadSubject(ctx, stream, subject, after, most)
}

// dedup forgets a key after twenty facts, as a server's window does after some minutes: what comes again then is new.
func (b *buggyBus) dedup(ctx context.Context, ms []bus.Message) ([]bus.Message, error) {
	all, err := b.Bus.Read(ctx, bus.Facts, 0, 10_000)
	for i := range ms {
		for _, old := range all {
			if old.Header[bus.HeaderID] == ms[i].Header[bus.HeaderID] && old.Seq+20 < ms[i].Seq {
				ms[i].Header[bus.HeaderID] += "/new"
				break
			}
		}
	}
	return ms, err
}

// pastF reads the facts up to the end of the log, not up to the tick's F.
func (b *buggyBus) pastF(ctx context.Context, ms []bus.Message) ([]bus.Message, error) {
	last, err := b.LastSeq(ctx, bus.Facts)
	if err != nil {
		return nil, err
	}
	for i := range ms {
		if ms[i].Subject != bus.Tick {
			continue
		}
		t, err := codec.DecodeTick(ms[i])
		if err != nil {
			return nil, err
		}
		t.FactsSeq = last
		p, err := codec.EncodeTick(t)
		if err != nil {
			return nil, err
		}
		ms[i].Data = p.Data
	}
	return ms, nil
}

// zero reads a value that was not readable as 0.
func zero(m *bus.Message) {
	b, q := codec.DecodeBatch(*m)
	if m.Subject == bus.Tick || q != nil {
		return
	}
	for i, raw := range b.Blocks {
		var block usage.Block
		if block.Decode(raw) != nil {
			return
		}
		block.Seen.Each(func(k int) {
			if block.Busy[k] == usage.BusyUnknown {
				block.Busy[k] = 0
			}
		})
		b.Blocks[i] = block.Append(nil)
	}
	if p, err := codec.EncodeBatch(&b); err == nil {
		m.Data = p.Data
	}
}
