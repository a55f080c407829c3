package meter

import (
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Kind tells leased time from the top-up of a start minimum or granularity.
type Kind string

// Kinds of quantity.
const (
	Leased Kind = "leased"
	TopUp  Kind = "top_up"
)

// Standing of a quantity: whether it can be billed.
type Standing string

// Every leased milli-second has exactly one standing, so that leased is the sum of them.
const (
	Priced     Standing = "priced"
	Waived     Standing = "waived"
	Refused    Standing = "refused"
	Free       Standing = "free"       // the contract gives it away: a trial, or a reclaim soon after the start
	Unobserved Standing = "unobserved" // nobody saw it, and the contract bills only what was seen
)

// Unbilled lists the standings of time that is shown and not billed.
func Unbilled() []Standing { return []Standing{Refused, Waived, Free, Unobserved} }

// ChargeKey is everything that can change a price or a line. Two seconds with one key are billed alike.
type ChargeKey struct {
	Customer    string
	Contract    string      // empty when no contract could be found: then Standing is Refused
	Version     uint64      // position of the contract fact whose document prices it, 0 without a contract
	PeriodStart span.Second // the billing period's first second, 0 without a contract
	LocalDay    int32       // yyyymmdd in the contract's zone, 0 without a contract
	SKU         string
	PricingMode string
	Region      string
	ServiceTier string
	Dedicated   bool
	Kind        Kind
	Standing    Standing
	Reason      string // why it is not billed, from the closed list of reasons
	price.Conditions
}

// Amounts are what the ledger sums, in milli-GPU-seconds. For leased time
// Measured + Inferred + Missing = Quantity; a top-up has no coverage.
type Amounts struct {
	Quantity, Measured, Inferred, Missing int64
}

// Plus adds two entries.
func (a Amounts) Plus(b Amounts) Amounts {
	return Amounts{a.Quantity + b.Quantity, a.Measured + b.Measured, a.Inferred + b.Inferred, a.Missing + b.Missing}
}

// Minus is the difference that takes b to a.
func (a Amounts) Minus(b Amounts) Amounts {
	return Amounts{a.Quantity - b.Quantity, a.Measured - b.Measured, a.Inferred - b.Inferred, a.Missing - b.Missing}
}

// Times multiplies by a share.
func (a Amounts) Times(milli int64) Amounts {
	return Amounts{a.Quantity * milli, a.Measured * milli, a.Inferred * milli, a.Missing * milli}
}

// IsZero tells whether nothing is left.
func (a Amounts) IsZero() bool { return a == Amounts{} }

// Entry names one cell of the ledger: what one lease holds of one device in one epoch hour under one charge key.
type Entry struct {
	Lease  string
	Device string // empty for an unplaced lease
	Hour   span.Hour
	Key    ChargeKey
}

// Difference is one appended row. As of any block, an entry is the sum of its differences up to it.
type Difference struct {
	Entry
	Block uint64
	Amounts
}

// DeviceEntry names one device's hour.
type DeviceEntry struct {
	Node, Device string
	Hour         span.Hour
}

// DeviceSeconds are what samples alone say of a device's hour, in seconds: seen under a lease or without one,
// ghost (leased, the node spoke, the device was not seen) and leak (seen busy without a lease).
type DeviceSeconds struct {
	SeenLeased, SeenUnleased, Ghost, Leak int64
}

// Minus is the difference that takes b to a.
func (a DeviceSeconds) Minus(b DeviceSeconds) DeviceSeconds {
	return DeviceSeconds{a.SeenLeased - b.SeenLeased, a.SeenUnleased - b.SeenUnleased, a.Ghost - b.Ghost, a.Leak - b.Leak}
}

// Plus adds two entries.
func (a DeviceSeconds) Plus(b DeviceSeconds) DeviceSeconds {
	return DeviceSeconds{a.SeenLeased + b.SeenLeased, a.SeenUnleased + b.SeenUnleased, a.Ghost + b.Ghost, a.Leak + b.Leak}
}

// DeviceDifference is one appended row of a device's hour.
type DeviceDifference struct {
	DeviceEntry
	Block uint64
	DeviceSeconds
}

// Refusal is a statement or message that could not be taken: counted, shown, never dropped. Delta is +1 when it is
// raised and -1 when its cause goes.
type Refusal struct {
	ID       string // the fact's key, or stream/sequence of a message
	Reason   string
	Detail   string
	Customer string // empty when unknown
	Lease    string
	At       span.Second // the event's own instant, 0 when unknown
	Block    uint64
	Delta    int64
}

// Block is what one tick brings: usage, then facts, then the time.
type Block struct {
	Seq         uint64 // the tick's position in the usage stream: the block's name
	Usage       []UsageMessage
	Quarantined []Quarantined
	Facts       []fact.Fact // positions (F of the block before, F]
	FactsSeq    uint64      // F
	At          span.Second // T
}

// UsageMessage is a decoded batch and its position.
type UsageMessage struct {
	Seq   uint64
	Batch usage.Batch
}

// Quarantined is a usage message that could not be taken.
type Quarantined struct {
	Seq uint64
	usage.Quarantine
}

// Outcome is what one block adds to the tables, in one put.
type Outcome struct {
	Block    uint64
	Rows     []usage.Row
	Ledger   []Difference
	Devices  []DeviceDifference
	Refusals []Refusal
	Cuts     []fact.CutDone // to be published after the put
}

// Unit is what an hour is classified for: a device with its node, or an unplaced lease.
type Unit struct {
	Node, Device string
	Lease        string // only when Device is empty
}

// held is the unit as leases hold it: on whatever node.
func (u Unit) held() occupancy.Unit { return occupancy.Unit{Device: u.Device, Lease: u.Lease} }

// UnitHour is one piece of the rater's work.
type UnitHour struct {
	Unit Unit
	Hour span.Hour
}

// MinuteRange asks for the stored rows of one device, or of the node itself when Device is empty.
type MinuteRange struct {
	Node, Device string // Node is used only when Device is empty
	From, To     span.Minute
}

// Needs is everything a block must read, all at or before the last block put.
type Needs struct {
	Minutes  []MinuteRange
	Standing []UnitHour // ledger and device entries that stand for these
}

// Reads answers Needs.
type Reads struct {
	Rows    []usage.Row
	Ledger  map[Entry]Amounts
	Devices map[DeviceEntry]DeviceSeconds
}

// Total is a ledger sum for closing: one lease and device under one charge key, over all hours.
type Total struct {
	Lease, Device string
	Key           ChargeKey
	Amounts
}
