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
}

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
		set(r, f, "early_end", "write none", parseEarlyEnd, func(struct{}) {})
		if slices.ContainsFunc(c.Packages, func(p Package) bool { return p.Name == out.Name }) {
			r.failf(f.values["name"], join(f.field, "name"), "write another name", "%q is the name of another package", out.Name)
		}
		rate, ok := c.Rate(out.SKU)
		if !ok && out.SKU != "" {
			r.failf(f.values["sku"], join(f.field, "sku"), "add a rate for it", "no rate has the SKU %q", out.SKU)
		}
		rate.Reserved = c.reservedFor(out.SKU)
		r.ownName(f, rate, out.Name)
		c.Packages = append(c.Packages, out)
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

// parseEarlyEnd takes the one rule that needs no fact: nothing states the early end of a package yet.
func parseEarlyEnd(text string) (struct{}, error) {
	switch text {
	case "none":
		return struct{}{}, nil
	case "prorata", "clawback":
		return struct{}{}, fmt.Errorf("%s is not supported by this version; write none", text)
	default:
		return struct{}{}, fmt.Errorf("unknown value %.40q; write none", text)
	}
}
