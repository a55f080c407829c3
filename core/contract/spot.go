package contract

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Spot is the price of a SKU in mode spot: what the index says, and at most so much of the on-demand price (page 3b, Order of
// prices).
type Spot struct {
	Index string   // whose ticks price it, in the lease's region
	Max   *big.Rat // the part of the on-demand price that is never exceeded; nil without a limit
	Lock  SpotLock
	// ReclaimedFreeSeconds: a lease that the provider ended sooner after its start bills nothing; 0 when none is free.
	ReclaimedFreeSeconds int64
}

// SpotLock is which tick holds at a second of a lease. The zero value is the default.
type SpotLock uint8

// The closed list of locks.
const (
	LockNone  SpotLock = iota // the tick of the second itself
	LockStart                 // the tick at the lease's start, for its whole life
	LockHour                  // the tick at the beginning of the lease's hour, counted from its start
)

// SpotLockNames lists the locks as a contract writes them, in the order of the constants.
func SpotLockNames() []string { return []string{"none", "start", "hour"} }

func (l SpotLock) String() string { return nameOf(SpotLockNames(), int(l)) }

// At is the instant whose tick prices a second of a lease with that start.
func (s *Spot) At(start, second span.Second) span.Second {
	switch s.Lock {
	case LockStart:
		return start
	case LockHour:
		return second - (second-start)%span.SecondsPerHour
	case LockNone:
	}
	return second
}

func spotFields() []string { return []string{"index", "max", "lock", "reclaimed_free_within"} }

func (r *reader) spot(s section, rate *Rate) {
	f, ok := r.section(s.values["spot"], join(s.field, "spot"), spotFields(), nil)
	if !ok {
		return
	}
	spot := &Spot{}
	spot.Index, _ = need(r, f, "index", "name the spot index, such as h100-80g", parseName)
	set(r, f, "max", "write 70% of on_demand", parseSpotMax, func(v *big.Rat) { spot.Max = v })
	if n, limited := f.values["max"]; limited && s.values["on_demand"] == nil && r.contract.PriceBook == "" {
		r.failf(n, join(f.field, "max"), "state `on_demand:` beside `spot:`, or remove it", "there is no on-demand price to take a part of")
	}
	lock := func(text string) (int, error) { return parseChoice(text, SpotLockNames()) }
	set(r, f, "lock", "write none", lock, func(v int) { spot.Lock = SpotLock(v) })
	set(r, f, "reclaimed_free_within", "write 1h", parseDuration, func(v int64) { spot.ReclaimedFreeSeconds = v })
	rate.Spot = spot
}

func parseSpotMax(text string) (*big.Rat, error) {
	percent, ok := strings.CutSuffix(text, " of on_demand")
	if !ok {
		return nil, fmt.Errorf("%.40q does not say what it is a part of; write 70%% of on_demand", text)
	}
	return parseFactor(percent)
}

// SpotPrice reads the price and currency that a tick states. Whoever takes ticks in asks it first: a price that cannot be read
// would leave the price before it standing.
func SpotPrice(b *fact.SpotPriceChanged) (Price, money.Currency, error) {
	currency, currencyErr := money.ParseCurrency(b.Currency)
	price, priceErr := ParsePrice(b.Price)
	return price, currency, errors.Join(currencyErr, priceErr)
}

// Spot lists the spot terms that may price a lease of the SKU: those of every version of the contract that the lease names, or
// of all the customer's.
func (r *Register) Spot(named, customer, sku string) []*Spot {
	list := r.customers[customer]
	if named != "" {
		list = nil
		if a := r.agreements[named]; a != nil {
			list = []*agreement{a}
		}
	}
	var out []*Spot
	for _, a := range list {
		for _, v := range a.versions {
			if rate, ok := v.Contract.Rate(sku); ok && rate.Spot != nil {
				out = append(out, rate.Spot)
			}
		}
	}
	return out
}
