package sim

import (
	"context"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
)

// failingBus puts faults around a log that can be replaced under its users.
type failingBus struct {
	*faults
	inner bus.Bus
}

var _ bus.Bus = (*failingBus)(nil)

// newLog is an empty log whose server's clock shows a second.
func newLog(now func() int64) bus.Bus {
	return membus.New(func() time.Time { return time.Unix(now(), 0) })
}

// Publish implements bus.Bus.
func (b *failingBus) Publish(ctx context.Context, p bus.Publication) (uint64, error) {
	return b.PublishBatch(ctx, []bus.Publication{p})
}

// PublishBatch implements bus.Bus. Only what expects nothing can be stored twice.
func (b *failingBus) PublishBatch(ctx context.Context, ps []bus.Publication) (last uint64, err error) {
	own := []string{lands, twice}
	for _, p := range ps {
		if p.ExpectLast != nil {
			own = own[:1]
		}
	}
	log := b.inner // what lands later lands in the log it was sent to
	err = b.do("publish "+ps[0].Subject, func() (err error) { last, err = log.PublishBatch(ctx, ps); return err }, own...)
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Last implements bus.Bus.
func (b *failingBus) Last(ctx context.Context, subject string) (m bus.Message, err error) {
	err = b.do("last "+subject, func() (err error) { m, err = b.inner.Last(ctx, subject); return err })
	return m, err
}

// LastSeq implements bus.Bus.
func (b *failingBus) LastSeq(ctx context.Context, stream string) (seq uint64, err error) {
	err = b.do("last of "+stream, func() (err error) { seq, err = b.inner.LastSeq(ctx, stream); return err })
	return seq, err
}

// Read implements bus.Bus. It may return fewer than there are.
func (b *failingBus) Read(ctx context.Context, stream string, after uint64, max int) (ms []bus.Message, err error) {
	err = b.do("read "+stream, func() (err error) { ms, err = b.inner.Read(ctx, stream, after, max); return err })
	return b.shorten(ms), err
}

// ReadSubject implements bus.Bus.
func (b *failingBus) ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) (ms []bus.Message, err error) {
	err = b.do("read "+subject, func() (err error) { ms, err = b.inner.ReadSubject(ctx, stream, subject, after, max); return err })
	return b.shorten(ms), err
}

func (b *failingBus) shorten(ms []bus.Message) []bus.Message {
	if len(ms) > 1 && b.draw("read", short) != "" {
		return ms[:1+b.dice().IntN(len(ms)-1)]
	}
	return ms
}

// Wait implements bus.Bus; nobody waits in a simulation.
func (b *failingBus) Wait(context.Context, string, uint64) error { return nil }

// Close implements bus.Bus.
func (b *failingBus) Close() error { return nil }

// everything reads a whole stream.
func everything(b bus.Bus, stream string, after uint64) []bus.Message {
	var out []bus.Message
	for {
		ms, err := b.Read(context.Background(), stream, after, 10_000)
		if err != nil || len(ms) == 0 {
			return out
		}
		out = append(out, ms...)
		after = ms[len(ms)-1].Seq
	}
}

// copyOf is a log as a copy that was taken when the streams had so many facts and usage messages. It goes on with a clock.
func copyOf(b bus.Bus, lengths [2]uint64, now func() int64) (bus.Bus, error) {
	var stamp time.Time
	copying := true
	out := membus.New(func() time.Time {
		if copying {
			return stamp
		}
		return time.Unix(now(), 0)
	})
	for i, stream := range []string{bus.Facts, bus.Usage} {
		for _, m := range everything(b, stream, 0) {
			if m.Seq > lengths[i] {
				break
			}
			stamp = m.Time
			if _, err := out.Publish(context.Background(), bus.Publication{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
				return nil, err
			}
		}
	}
	copying = false
	return out, nil
}

func isInvoice(subject string) bool { return strings.HasPrefix(subject, "gh.fact.invoice.") }
