package fact

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
)

// CustomerHalted stops the rating of one customer after a failed assertion; the others go on.
type CustomerHalted struct {
	Customer string `json:"customer" yaml:"customer"`
	Reason   string `json:"reason" yaml:"reason"`
	Block    uint64 `json:"block" yaml:"block"`
}

// CutRequested asks the rater for a cut: it stands at the first tick whose facts include it.
type CutRequested struct {
	Cut string      `json:"cut" yaml:"cut"`
	At  span.Second `json:"at" yaml:"at"` // the tick time at which it was decided
}

// Total is what one contract's leases hold in one period, counted from occupancy alone, in milli-GPU-seconds:
// the left side of the conservation identity that the invoicer checks against the ledger.
type Total struct {
	Contract              string      `json:"contract"`
	Customer              string      `json:"customer"`
	PeriodStart           span.Second `json:"period_start"`
	LeasedMilliGPUSeconds int64       `json:"leased_milli_gpu_seconds"`
}

// CutDone says that the ledger holds everything known at the cut, up to and including Block. Totals are those that changed
// since the cut before: of a period that is not listed, what an earlier cut stated last still holds, and zero when none did.
// FactsSeq is the position of the last fact in Block: what was stated behind it is not part of the cut, neither as a quantity
// nor as a contract's word.
type CutDone struct {
	Cut      string      `json:"cut" yaml:"cut"`
	At       span.Second `json:"at" yaml:"at"`
	Block    uint64      `json:"block" yaml:"block"`
	FactsSeq uint64      `json:"facts_seq,omitempty" yaml:"facts_seq,omitempty"`
	Digest   Hash        `json:"digest" yaml:"digest"`
	Totals   []Total     `json:"totals" yaml:"totals"`
}

// PeriodClosed is closing N of a contract's period at a cut: 0 bills fees in advance, 1 is the close, more are corrections.
type PeriodClosed struct {
	Contract    string      `json:"contract" yaml:"contract"`
	PeriodStart span.Second `json:"period_start" yaml:"period_start"`
	PeriodEnd   span.Second `json:"period_end" yaml:"period_end"`
	N           int         `json:"n" yaml:"n"`
	Cut         string      `json:"cut" yaml:"cut"`
}

// Key is the closing's name: (contract, period start, n) happens once.
func (b *PeriodClosed) Key() string {
	return fmt.Sprintf("%s/%s/%d", b.Contract, b.PeriodStart, b.N)
}

// InvoiceIssued is an invoice with its gapless number and its document, whose bytes are frozen (docs/format.md).
type InvoiceIssued struct {
	Series   string `json:"series" yaml:"series"`
	Number   uint64 `json:"number" yaml:"number"`
	Customer string `json:"customer" yaml:"customer"`
	Closing  string `json:"closing" yaml:"closing"` // PeriodClosed.Key
	Document []byte `json:"document" yaml:"document"`
}

// InvoiceRecovered states again an invoice that was given out and that the log lost when it was restored from an older copy:
// its number stays used, and the first decision of the incarnation cancels it.
type InvoiceRecovered struct {
	Incarnation uint64 `json:"incarnation" yaml:"incarnation"` // the one that begins
	Series      string `json:"series" yaml:"series"`
	Number      uint64 `json:"number" yaml:"number"`
	Customer    string `json:"customer" yaml:"customer"`
	Closing     string `json:"closing" yaml:"closing"` // as in InvoiceIssued; that closing is lost
	Document    []byte `json:"document" yaml:"document"`
}

// LogRecovered begins an incarnation: the log goes on from an older copy of itself, with tables of its own. A log that has
// none is in its first.
type LogRecovered struct {
	Incarnation uint64 `json:"incarnation" yaml:"incarnation"`
	By          string `json:"by" yaml:"by"`
	Reason      string `json:"reason" yaml:"reason"`
}

// Alert is the state of one rule for one entity when it changed.
type Alert struct {
	Rule          string      `json:"rule" yaml:"rule"`
	Scope         string      `json:"scope" yaml:"scope"` // lease or customer
	Target        string      `json:"target" yaml:"target"`
	Customer      string      `json:"customer" yaml:"customer"`
	At            span.Second `json:"at" yaml:"at"`
	WindowSeconds int64       `json:"window_seconds" yaml:"window_seconds"`
	// BusyPermille is utilisation over known leased seconds, KnownPermille their part of all leased seconds.
	BusyPermille  int64 `json:"busy_permille" yaml:"busy_permille"`
	KnownPermille int64 `json:"known_permille" yaml:"known_permille"`
}

// AlertRaised opens an episode.
type AlertRaised struct{ Alert }

// AlertResolved ends it.
type AlertResolved struct{ Alert }

// Type implements Body.
func (*CustomerHalted) Type() Type { return TypeCustomerHalted }

// Type implements Body.
func (*CutRequested) Type() Type { return TypeCutRequested }

// Type implements Body.
func (*CutDone) Type() Type { return TypeCutDone }

// Type implements Body.
func (*PeriodClosed) Type() Type { return TypePeriodClosed }

// Type implements Body.
func (*InvoiceIssued) Type() Type { return TypeInvoiceIssued }

// Type implements Body.
func (*InvoiceRecovered) Type() Type { return TypeInvoiceRecovered }

// Type implements Body.
func (*LogRecovered) Type() Type { return TypeLogRecovered }

// Type implements Body.
func (*AlertRaised) Type() Type { return TypeAlertRaised }

// Type implements Body.
func (*AlertResolved) Type() Type { return TypeAlertResolved }

// Entity implements Body.
func (b *CustomerHalted) Entity() string { return b.Customer }

// Entity implements Body.
func (b *CutRequested) Entity() string { return b.Cut }

// Entity implements Body.
func (b *CutDone) Entity() string { return b.Cut }

// Entity implements Body.
func (b *PeriodClosed) Entity() string { return b.Key() }

// Entity implements Body: the series, so that the subject's last message is the last number given.
func (b *InvoiceIssued) Entity() string { return b.Series }

// Entity implements Body: the series, as of an invoice that is issued, so that both share one line of numbers.
func (b *InvoiceRecovered) Entity() string { return b.Series }

// Entity implements Body: one for all, so that the subject's last message names the incarnation.
func (*LogRecovered) Entity() string { return "log" }

// Entity implements Body.
func (b *Alert) Entity() string { return b.Rule + "/" + b.Scope + "/" + b.Target }
