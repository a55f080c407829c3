package meter

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/price"
)

// Digest runs over the ledger as it grows: SHA-256 of the digest before and every row of the block in its order. Two
// raters that put the same rows have the same digest.
func (o *Outcome) Digest(before fact.Hash) fact.Hash {
	b := append([]byte(nil), before[:]...)
	b = binary.AppendUvarint(b, o.Block)
	for i := range o.Rows {
		r := &o.Rows[i]
		b = appendText(b, r.Node, r.Device, string(r.Data))
		b = appendNumbers(b, int64(r.Minute), int64(r.Run), int64(r.SeqFirst), int64(r.SeqLast), int64(r.Spoken), int64(r.Seen))
	}
	for i := range o.Ledger {
		d := &o.Ledger[i]
		k := &d.Key
		b = appendText(b, d.Lease, d.Device, k.Customer, k.Contract, k.SKU, k.PricingMode, k.Region, k.ServiceTier, string(k.Kind), string(k.Standing), k.Reason)
		b = appendNumbers(b, int64(d.Hour), int64(k.Version), int64(k.PeriodStart), int64(k.LocalDay), boolNumber(k.Dedicated),
			d.Quantity, d.Measured, d.Inferred, d.Missing)
		if c := k.Conditions; c != (price.Conditions{}) { // a log from before there were conditions keeps its digests
			b = appendText(b, c.Window, c.Commitment, c.SpotPrice)
			b = appendNumbers(b, boolNumber(c.Idle), int64(c.Book))
			if c.AtOnceMilli != 0 || c.SliceMilli != 0 { // nor does a log change them in which nothing is priced by these
				b = appendNumbers(b, c.AtOnceMilli, c.SliceMilli)
			}
		}
		if k.State != "" { // likewise from before there were states
			b = appendText(b, string(k.State))
		}
	}
	for i := range o.Devices {
		d := &o.Devices[i]
		b = appendText(b, d.Node, d.Device)
		b = appendNumbers(b, int64(d.Hour), d.SeenLeased, d.SeenUnleased, d.Ghost, d.Leak)
	}
	for i := range o.Refusals {
		r := &o.Refusals[i]
		b = appendText(b, r.ID, r.Reason, r.Detail, r.Customer, r.Lease)
		b = appendNumbers(b, int64(r.At), r.Delta)
	}
	return sha256.Sum256(b)
}

func appendText(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = binary.AppendUvarint(b, uint64(len(t)))
		b = append(b, t...)
	}
	return b
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func boolNumber(v bool) int64 {
	if v {
		return 1
	}
	return 0
}
