package usage

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
)

// QuarantineReason says why a usage message was set aside. The list is closed (docs/format.md, Quarantine).
type QuarantineReason string

// The quarantine reasons.
const (
	Undecodable      QuarantineReason = "undecodable"
	WrongPartition   QuarantineReason = "wrong_partition"
	SequenceConflict QuarantineReason = "sequence_conflict"
	AheadOfTick      QuarantineReason = "ahead_of_tick"
	BadSignature     QuarantineReason = "bad_signature"
)

// MaxAheadSeconds is how far a batch's seconds may lie after the tick that closes its block.
const MaxAheadSeconds = 60

// Last is the last second that the batch speaks for.
func (b *Batch) Last() span.Second { return b.Minute.Start() + span.Second(b.Spoken.Last()) }

// Ahead tells whether the batch speaks of more than MaxAheadSeconds after the tick that closes its block: it is then
// quarantined as AheadOfTick, whatever later ticks say.
func (b *Batch) Ahead(tick span.Second) bool { return b.Last()-MaxAheadSeconds > tick }

// Quarantine is a usage message that is counted and shown, and measured by nobody.
type Quarantine struct {
	Reason QuarantineReason
	Node   string // as the body says, or the subject's last token when the body cannot be read
	Detail string
}

func (q *Quarantine) Error() string {
	return fmt.Sprintf("batch of node %q is quarantined as %s: %s", q.Node, q.Reason, q.Detail)
}
