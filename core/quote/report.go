package quote

import (
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
)

// Report is a quote for programs: instants in the quote's zone, amounts as decimal strings, exact ones as fractions.
type Report struct {
	Customer string        `json:"customer"`
	From     string        `json:"from"`
	To       string        `json:"to"`
	Timezone string        `json:"timezone"`
	Currency string        `json:"currency"`
	Offers   []ReportOffer `json:"offers"` // the customer's own first
	Modes    *ReportModes  `json:"modes,omitempty"`
}

// ReportOffer is what the span comes to under one contract.
type ReportOffer struct {
	Contracts  []string          `json:"contracts"` // several only of the customer's own
	Own        bool              `json:"own"`
	Total      string            `json:"total"`
	Difference string            `json:"difference,omitempty"` // to the own contracts' total
	Billed     int64             `json:"billed_milli_gpu_seconds"`
	Statements []ReportStatement `json:"statements"`
	Unpriced   []ReportUnpriced  `json:"unpriced"`
	Problems   []ReportProblem   `json:"problems"`
}

// ReportStatement is one contract's period. It is no invoice: it has no number and closes nothing.
type ReportStatement struct {
	Contract string              `json:"contract"`
	Period   bill.DocumentPeriod `json:"period"`
	Lines    []bill.DocumentLine `json:"lines"`
	Total    string              `json:"total"`
}

// ReportUnpriced is GPU time that no line bills.
type ReportUnpriced struct {
	Standing        meter.Standing `json:"standing"`
	Reason          string         `json:"reason"`
	MilliGPUSeconds int64          `json:"milli_gpu_seconds"`
}

// ReportProblem is a statement that the contracts cannot take.
type ReportProblem struct {
	Statement string `json:"statement"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
}

// ReportModes are the ways to buy the use of the span.
type ReportModes struct {
	Contract string       `json:"contract"`
	List     []ReportMode `json:"list"`
}

// ReportMode is the bill in one mode. Without a rank it says why, and what its total is of is not what on demand prices.
type ReportMode struct {
	Mode         ModeName         `json:"mode"`
	Rank         int              `json:"rank,omitempty"`
	Why          Why              `json:"unranked_because,omitempty"`
	Bound        bool             `json:"bound,omitempty"` // the total is a lowest, the saving a highest
	Total        string           `json:"total,omitempty"`
	Saving       string           `json:"saving,omitempty"`
	SavingPart   string           `json:"saving_fraction,omitempty"` // of the bill on demand
	Unpriced     []ReportUnpriced `json:"unpriced,omitempty"`
	Reservations []ReportHeld     `json:"reservations,omitempty"`
	Market       *ReportMarket    `json:"market,omitempty"`
	Windows      *ReportWindows   `json:"windows,omitempty"`
}

// ReportHeld is a SKU's best reserved quantity.
type ReportHeld struct {
	SKU         string   `json:"sku"`
	Reservation string   `json:"reservation"`
	Price       string   `json:"price"`
	Quantity    int64    `json:"quantity"`
	Most        int64    `json:"most_held_at_once"`
	Totals      []string `json:"totals"` // of the whole bill, by quantity from 0
	Fee         string   `json:"fee"`
	Unused      int64    `json:"unused_milli_gpu_seconds"`
}

// ReportMarket is what would have hit the leases as spot, see Market.
type ReportMarket struct {
	SKUs        []string `json:"skus"`
	Kept        []string `json:"on_demand_skus"`
	Above       int      `json:"reclaims_by_price"`
	Taken       int      `json:"reclaims_stated"`
	Interrupted int64    `json:"above_max_milli_gpu_seconds"`
	Unknown     int64    `json:"price_unknown_milli_gpu_seconds"`
	Unlimited   []string `json:"skus_without_max"`
}

// ReportWindows is what off-peak windows do, see Windows.
type ReportWindows struct {
	Best           string `json:"cheapest_window"`
	Inside         int64  `json:"inside_milli_gpu_seconds"`
	Outside        int64  `json:"outside_milli_gpu_seconds"`
	Cost           string `json:"inside_cost_fraction"`
	WithoutWindows string `json:"inside_cost_without_windows_fraction"`
}

// Report writes the quote down.
func (r *Result) Report() *Report {
	out := &Report{
		Customer: r.Customer, From: r.Zone.Text(r.Span.From), To: r.Zone.Text(r.Span.To), Timezone: r.Zone.String(), Currency: r.Currency.String(),
	}
	if r.Own != nil {
		own := r.Own.report()
		own.Own = true
		out.Offers = append(out.Offers, own)
	}
	for _, o := range r.Others {
		other := o.report()
		if r.Own != nil {
			other.Difference = o.Total.Sub(r.Own.Total).String()
		}
		out.Offers = append(out.Offers, other)
	}
	if r.Modes != nil {
		out.Modes = &ReportModes{Contract: r.Modes.Contract}
		for i := range r.Modes.List {
			m := r.Modes.List[i].report(r)
			if m.Why == "" {
				m.Rank = i + 1
			}
			out.Modes.List = append(out.Modes.List, m)
		}
	}
	return out
}

func (o *Offer) report() ReportOffer {
	out := ReportOffer{
		Contracts: o.Names, Total: o.Total.String(), Billed: o.Billed, Statements: []ReportStatement{}, Unpriced: o.reportUnpriced(), Problems: []ReportProblem{},
	}
	for _, s := range o.Statements {
		d := bill.NewDocument(s, nil, 1)
		out.Statements = append(out.Statements, ReportStatement{d.Contract, d.Period, d.Lines, d.Total})
	}
	for _, p := range o.Problems {
		out.Problems = append(out.Problems, ReportProblem{p.ID, p.Reason, p.Detail})
	}
	return out
}

func (o *Offer) reportUnpriced() []ReportUnpriced {
	out := []ReportUnpriced{}
	for _, u := range o.Unpriced {
		out = append(out, ReportUnpriced(u))
	}
	return out
}

func (m *Mode) report(r *Result) ReportMode {
	out := ReportMode{Mode: m.Name, Why: m.Why}
	if m.Offer == nil {
		return out
	}
	out.Total, out.Saving, out.Unpriced, out.Bound = m.Total.String(), m.Saving.String(), m.Offer.reportUnpriced(), m.Name == OffPeak
	if m.Part != nil {
		out.SavingPart = m.Part.RatString()
	}
	for _, h := range m.Held {
		held := ReportHeld{
			SKU: h.SKU, Reservation: h.Reservation.Name, Price: h.Reservation.Price.Text(r.Currency), Quantity: h.Reservation.Quantity, Most: h.Most,
			Fee: h.Fee.String(), Unused: h.Unused,
		}
		for _, c := range h.Costs {
			held.Totals = append(held.Totals, c.String())
		}
		out.Reservations = append(out.Reservations, held)
	}
	if k := m.Market; k != nil {
		list := func(names []string) []string { return append([]string{}, names...) }
		out.Market = &ReportMarket{list(k.SKUs), list(k.Kept), k.Above, k.Taken, k.Interrupted, k.Unknown, list(k.Unlimited)}
	}
	if w := m.Windows; w != nil {
		out.Windows = &ReportWindows{w.Best, w.Inside, w.Outside, w.Cost.RatString(), w.WithoutWindows.RatString()}
	}
	return out
}
