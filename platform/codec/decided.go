package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

// decidedMessage writes the facts that services decide; nil for the others.
func decidedMessage(b fact.Body) proto.Message {
	switch b := b.(type) {
	case *fact.CustomerHalted:
		return &logv1.CustomerHalted{Customer: b.Customer, Reason: b.Reason, Block: b.Block}
	case *fact.CutRequested:
		return &logv1.CutRequested{Cut: b.Cut, AtUnixSeconds: int64(b.At)}
	case *fact.CutDone:
		return &logv1.CutDone{
			Cut: b.Cut, AtUnixSeconds: int64(b.At), Block: b.Block, FactsSeq: b.FactsSeq, Digest: b.Digest[:],
			Totals: totalsToWire(b.Totals),
		}
	case *fact.PeriodClosed:
		return &logv1.PeriodClosed{
			Contract: b.Contract, PeriodStartUnixSeconds: int64(b.PeriodStart), PeriodEndUnixSeconds: int64(b.PeriodEnd),
			N: int64(b.N), Cut: b.Cut,
		}
	case *fact.InvoiceIssued:
		return &logv1.InvoiceIssued{Series: b.Series, Number: b.Number, Customer: b.Customer, Closing: b.Closing, Document: b.Document}
	case *fact.InvoiceRecovered:
		return &logv1.InvoiceRecovered{
			Incarnation: b.Incarnation, Series: b.Series, Number: b.Number, Customer: b.Customer, Closing: b.Closing, Document: b.Document,
		}
	case *fact.LogRecovered:
		return &logv1.LogRecovered{Incarnation: b.Incarnation, By: b.By, Reason: b.Reason}
	case *fact.AlertRaised:
		return &logv1.AlertRaised{Alert: alertToWire(&b.Alert)}
	case *fact.AlertResolved:
		return &logv1.AlertResolved{Alert: alertToWire(&b.Alert)}
	default:
		return nil
	}
}

// decidedBody is decidedMessage backwards; nil, nil for the other messages.
func decidedBody(m proto.Message) (fact.Body, error) {
	switch m := m.(type) {
	case *logv1.CustomerHalted:
		return &fact.CustomerHalted{Customer: m.GetCustomer(), Reason: m.GetReason(), Block: m.GetBlock()}, nil
	case *logv1.CutRequested:
		return &fact.CutRequested{Cut: m.GetCut(), At: span.Second(m.GetAtUnixSeconds())}, nil
	case *logv1.CutDone:
		digest, err := hashFromWire("digest", m.GetDigest())
		return &fact.CutDone{
			Cut: m.GetCut(), At: span.Second(m.GetAtUnixSeconds()), Block: m.GetBlock(), FactsSeq: m.GetFactsSeq(), Digest: digest,
			Totals: totalsFromWire(m.GetTotals()),
		}, err
	case *logv1.PeriodClosed:
		return &fact.PeriodClosed{
			Contract: m.GetContract(), PeriodStart: span.Second(m.GetPeriodStartUnixSeconds()), PeriodEnd: span.Second(m.GetPeriodEndUnixSeconds()),
			N: int(m.GetN()), Cut: m.GetCut(),
		}, nil
	case *logv1.InvoiceIssued:
		return &fact.InvoiceIssued{
			Series: m.GetSeries(), Number: m.GetNumber(), Customer: m.GetCustomer(), Closing: m.GetClosing(), Document: m.GetDocument(),
		}, nil
	case *logv1.InvoiceRecovered:
		return &fact.InvoiceRecovered{
			Incarnation: m.GetIncarnation(), Series: m.GetSeries(), Number: m.GetNumber(), Customer: m.GetCustomer(), Closing: m.GetClosing(),
			Document: m.GetDocument(),
		}, nil
	case *logv1.LogRecovered:
		return &fact.LogRecovered{Incarnation: m.GetIncarnation(), By: m.GetBy(), Reason: m.GetReason()}, nil
	case *logv1.AlertRaised:
		return &fact.AlertRaised{Alert: alertFromWire(m.GetAlert())}, nil
	case *logv1.AlertResolved:
		return &fact.AlertResolved{Alert: alertFromWire(m.GetAlert())}, nil
	default:
		return nil, nil
	}
}

func totalsToWire(totals []fact.Total) []*logv1.Total {
	var all []*logv1.Total
	for _, t := range totals {
		all = append(all, &logv1.Total{
			Contract: t.Contract, Customer: t.Customer, PeriodStartUnixSeconds: int64(t.PeriodStart), LeasedMilliGpuSeconds: t.LeasedMilliGPUSeconds,
		})
	}
	return all
}

func totalsFromWire(totals []*logv1.Total) []fact.Total {
	var all []fact.Total
	for _, t := range totals {
		all = append(all, fact.Total{
			Contract: t.GetContract(), Customer: t.GetCustomer(), PeriodStart: span.Second(t.GetPeriodStartUnixSeconds()),
			LeasedMilliGPUSeconds: t.GetLeasedMilliGpuSeconds(),
		})
	}
	return all
}

func alertToWire(a *fact.Alert) *logv1.Alert {
	return &logv1.Alert{
		Rule: a.Rule, Scope: a.Scope, Target: a.Target, Customer: a.Customer, AtUnixSeconds: int64(a.At),
		WindowSeconds: a.WindowSeconds, BusyPermille: a.BusyPermille, KnownPermille: a.KnownPermille,
	}
}

func alertFromWire(a *logv1.Alert) fact.Alert {
	return fact.Alert{
		Rule: a.GetRule(), Scope: a.GetScope(), Target: a.GetTarget(), Customer: a.GetCustomer(), At: span.Second(a.GetAtUnixSeconds()),
		WindowSeconds: a.GetWindowSeconds(), BusyPermille: a.GetBusyPermille(), KnownPermille: a.GetKnownPermille(),
	}
}

func hashFromWire(field string, data []byte) (fact.Hash, error) {
	if len(data) != len(fact.Hash{}) {
		return fact.Hash{}, fmt.Errorf("%w: %s has %d bytes; it is a SHA-256", ErrBody, field, len(data))
	}
	return fact.Hash(data), nil
}
