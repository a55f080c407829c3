package explain

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Report is an explanation for programs: instants in the contract's zone, exact amounts as fractions.
type Report struct {
	Invoice    string             `json:"invoice"`
	Line       string             `json:"line"` // 2, or u1 for time that is not billed
	Contract   string             `json:"contract"`
	Currency   string             `json:"currency"`
	Billed     *bill.DocumentLine `json:"billed,omitempty"`
	Unbilled   *bill.UnbilledLine `json:"unbilled,omitempty"`
	Exact      string             `json:"exact_fraction,omitempty"` // of a billed line, before rounding; of a correction the difference
	Segments   []ReportSegment    `json:"segments"`
	Inputs     []ReportInput      `json:"inputs,omitempty"`
	Unrelieved *ReportUnrelieved  `json:"without_idle_relief,omitempty"`
}

// ReportSegment is a stretch of one lease's time on one unit at one price. What a correction takes back has a negative share.
type ReportSegment struct {
	Lease           string         `json:"lease"`
	Device          string         `json:"device,omitempty"`
	Kind            meter.Kind     `json:"kind"`
	From            string         `json:"from"`
	To              string         `json:"to"` // of a top-up: of the start that it tops up
	Milli           int64          `json:"milli_gpus"`
	MilliGPUSeconds int64          `json:"milli_gpu_seconds"`
	Standing        meter.Standing `json:"standing"`
	Reason          string         `json:"reason,omitempty"`
	Version         uint64         `json:"contract_version,omitempty"` // position of the contract fact in the log
	Book            uint64         `json:"price_book,omitempty"`       // position of the price book fact in the log
	Window          string         `json:"window,omitempty"`
	Idle            bool           `json:"idle,omitempty"`
	Commitment      string         `json:"commitment,omitempty"`
	SpotPrice       string         `json:"spot_price,omitempty"`
	State           string         `json:"state,omitempty"` // of the lease, where it scales the price
	Steps           []string       `json:"steps,omitempty"`
	PerGPUHour      string         `json:"per_gpu_hour,omitempty"`
	Exact           string         `json:"exact_fraction,omitempty"`
}

// ReportInput is something that another charge stands on.
type ReportInput struct {
	Kind   bill.InputKind `json:"kind"`
	Name   string         `json:"name,omitempty"` // the resource of a reading, else the SKU or name of the line that is meant
	From   string         `json:"from,omitempty"`
	To     string         `json:"to,omitempty"`
	State  string         `json:"state,omitempty"` // of a lease, and the part of a level that counts in it: stopped 200%
	Stated string         `json:"stated,omitempty"`
	Counts string         `json:"counts"`
	Unit   string         `json:"unit,omitempty"`
	Costs  string         `json:"costs,omitempty"` // of a reading that is priced by itself
}

// ReportUnrelieved says why time had no idle relief.
type ReportUnrelieved struct {
	Busy    int64 `json:"busy_milli_gpu_seconds"`
	Early   int64 `json:"early_milli_gpu_seconds"`
	Shared  int64 `json:"shared_milli_gpu_seconds"`
	Unknown int64 `json:"unknown_milli_gpu_seconds"`
}

// Report writes the explanation down.
func (x *Explanation) Report() *Report {
	r := &Report{
		Invoice: x.Document.Invoice, Line: x.Name.String(), Contract: x.Document.Contract, Currency: x.Document.Currency,
		Billed: x.Line, Unbilled: x.Unbilled, Segments: make([]ReportSegment, 0, len(x.Segments)),
	}
	if x.Line != nil {
		r.Exact = x.Exact.RatString()
	}
	if u := x.Unrelieved; u != (meter.Unrelieved{}) {
		r.Unrelieved = &ReportUnrelieved{u.Busy, u.Early, u.Shared, u.Unknown}
	}
	for i := range x.Segments {
		r.Segments = append(r.Segments, x.reportSegment(&x.Segments[i]))
	}
	if x.Item == nil {
		return r
	}
	for _, in := range x.Item.Inputs {
		out := ReportInput{Kind: in.Kind, Name: in.Name, State: in.State, Counts: in.Counts.RatString(), Unit: in.Unit}
		if in.Kind == bill.InputTime || in.Kind == bill.InputCharge {
			if out.Name = in.Line.Name; in.Line.Item == "" {
				out.Name = in.Line.SKU
			}
		}
		if in.Span != (span.Span{}) {
			out.From, out.To = x.text(in.Span.From), x.text(in.Span.To)
		}
		if in.Stated != nil {
			out.Stated = in.Stated.RatString()
		}
		if in.Costs != nil {
			out.Costs = in.Costs.RatString()
		}
		r.Inputs = append(r.Inputs, out)
	}
	return r
}

func (x *Explanation) reportSegment(g *Segment) ReportSegment {
	k := g.Key
	out := ReportSegment{
		Lease: g.Lease, Device: g.Device, Kind: k.Kind, From: x.text(g.Span.From), To: x.text(g.Span.To), Milli: g.Milli,
		MilliGPUSeconds: g.MilliGPUSeconds, Standing: k.Standing, Reason: k.Reason, Version: k.Version, Book: k.Book,
		Window: k.Window, Idle: k.Idle, Commitment: k.Commitment, SpotPrice: k.SpotPrice, State: string(k.State),
	}
	if g.Exact == nil {
		return out
	}
	out.Exact = g.Exact.RatString()
	out.PerGPUHour = money.DecimalText(new(big.Rat).Mul(g.Price.PerMilliGPUSecond, big.NewRat(span.SecondsPerHour*1000, 1)), 2, 12)
	for _, s := range g.Price.Steps {
		out.Steps = append(out.Steps, s.String())
	}
	return out
}

// text is an instant in the contract's zone.
func (x *Explanation) text(s span.Second) string {
	if s == span.Open {
		return s.String()
	}
	return x.Contract.Zone.Text(s)
}
