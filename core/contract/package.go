package contract

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Package is capacity of a SKU that is bought for one day, week, month or year from the instant of purchase on, at a fee due then
// (package.purchased). What it does not cover is on demand.
type Package struct {
	Name     string
	SKU      string
	Unit     PackageUnit
	Quantity int64    // whole GPUs of one package
	Price    *big.Rat // fee of one package
	Region   string   // only leases there are covered; empty for anywhere
	EarlyEnd EarlyEnd // what of the fee is due when it ends before its time
}

// EarlyEnd is what becomes of a package's fee when it ends before its time (package.ended).
type EarlyEnd uint8

// The closed list of rules, the default first.
const (
	EarlyEndNone     EarlyEnd = iota // the fee stays whole
	EarlyEndProrata                  // the local days before that of the end are paid, of those the package was bought for
	EarlyEndClawback                 // the time until the end is paid on demand, and never more than the fee
)

// EarlyEndNames lists the rules as a contract writes them, in the order of the constants.
func EarlyEndNames() []string { return []string{"none", "prorata", "clawback"} }

func (e EarlyEnd) String() string { return nameOf(EarlyEndNames(), int(e)) }

// PackageUnit is how long a package runs. The zero value is no unit.
type PackageUnit uint8

// The closed list of package units.
const (
	PackageDay PackageUnit = iota + 1
	PackageWeek
	PackageMonth
	PackageYear
)

// PackageUnitNames lists the units as a contract writes them, in the order of the constants.
func PackageUnitNames() []string { return []string{"day", "week", "month", "year"} }

func (u PackageUnit) String() string { return nameOf(PackageUnitNames(), int(u)-1) }

// Runs is the time of a package bought at an instant: until the local clock shows the same time that many days or months later
// (the last day of a shorter month, case B25).
func (u PackageUnit) Runs(zone calendar.Zone, at span.Second) span.Span {
	months := map[PackageUnit]int{PackageMonth: 1, PackageYear: 12}[u]
	days := map[PackageUnit]int{PackageDay: 1, PackageWeek: 7}[u]
	return span.Span{From: at, To: zone.Later(at, months, days)}
}

func packageFields() []string {
	return []string{"name", "sku", "unit", "quantity", "price", "region", "overrun", "early_end"}
}

func (r *reader) packages(s section, c *Contract) {
	for _, f := range r.sections(s, "packages", packageFields(), nil) {
		var out Package
		out.Name, _ = need(r, f, "name", "name it, such as week", parseName)
		out.SKU, _ = need(r, f, "sku", "name a SKU of rates", parseName)
		unit := func(text string) (int, error) { return parseChoice(text, PackageUnitNames()) }
		chosen, _ := need(r, f, "unit", "write week", unit)
		out.Unit = PackageDay + PackageUnit(chosen)
		out.Quantity, _ = need(r, f, "quantity", remedyQuantity, parseGPUs)
		out.Price, _ = need(r, f, "price", "write the fee of one package, such as 4200.00", parsePackagePrice)
		set(r, f, "region", "name a region", parseName, func(v string) { out.Region = v })
		set(r, f, "overrun", "write on_demand", parseOnDemand, func(struct{}) {})
		early := func(text string) (int, error) { return parseChoice(text, EarlyEndNames()) }
		set(r, f, "early_end", "write prorata", early, func(chosen int) { out.EarlyEnd = EarlyEnd(chosen) })
		if slices.ContainsFunc(c.Packages, func(p Package) bool { return p.Name == out.Name }) {
			r.failf(f.values["name"], join(f.field, "name"), "write another name", "%q is the name of another package", out.Name)
		}
		rate, ok := c.Rate(out.SKU)
		if !ok && out.SKU != "" {
			r.failf(f.values["sku"], join(f.field, "sku"), "add a rate for it", "no rate has the SKU %q", out.SKU)
		}
		rate.Reserved = c.reservedFor(out.SKU)
		r.ownName(f, rate, out.Name)
		if ok && out.EarlyEnd == EarlyEndClawback {
			r.listed(f, "early_end", rate, out.Region)
		}
		c.Packages = append(c.Packages, out)
	}
}

// listed refuses a clawback that would find no on-demand price.
func (r *reader) listed(f section, key string, rate Rate, region string) {
	_, priced := rate.Region[region]
	switch field := join(f.field, key); {
	case rate.OnDemand.Amount == nil && r.contract.PriceBook == "":
		r.failf(f.values[key], field, "state the rate's on_demand, or no clawback", "it charges time on demand, and %q has no on-demand price", rate.SKU)
	case rate.PerSlice():
		r.failf(f.values[key], field, "state prices per GPU, or no clawback", "it charges the capacity of GPUs on demand, and %q has a price per slice", rate.SKU)
	case rate.Region != nil && !priced:
		r.failf(f.values[key], field, "state a region of the rate, or no clawback", "it charges time on demand, and %q has no price in region %q", rate.SKU, region)
	}
}

func parsePackagePrice(text string) (*big.Rat, error) {
	price, err := money.ParseDecimal(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("price %w", err)
	case price.Sign() < 0:
		return nil, fmt.Errorf("price %.60q is negative; write 0 or more", text)
	case price.Cmp(big.NewRat(maxPrice, 1)) > 0:
		return nil, fmt.Errorf("price %.60q is above %d; correct it", text, int64(maxPrice))
	}
	return price, nil
}
