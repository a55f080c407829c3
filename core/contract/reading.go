package contract

import (
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Purchase is a package that was bought, and where in the fact stream.
type Purchase struct {
	Seq uint64
	Key string
	*fact.PackagePurchased
	Sold   Package            // as the version in force at its instant sells it
	Whole  span.Span          // the time it was bought for
	Runs   span.Span          // the time it covers
	Ended  *fact.PackageEnded // before its time, or nil
	Reason string             // why it bought nothing, or ""
}

// Purchases are the packages bought under a contract, in order of position.
func (r *Register) Purchases(id string) []Purchase { return r.purchases[id] }

// Customer is whose contract it is, or "" when no signature is known.
func (r *Register) Customer(id string) string {
	if a := r.agreements[id]; a != nil {
		return a.customer
	}
	return ""
}
