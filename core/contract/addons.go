package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
)

// Addon is a charge beside the GPU time (design page 3b, Add-ons): a fee, or a price on all leased time.
type Addon struct {
	Name    string
	Fee     *Fee  // or nil
	Prorate bool  // the fee counts local days; else it is whole in every period that the add-on is in force in
	Advance bool  // the fee of a period is paid when it begins; else when it closes
	Price   Price // on leased time, where no fee is stated
}

func addonFields() []string { return []string{"name", "price", "prorate", "pay"} }

func (r *reader) addons(s section, c *Contract) {
	for _, f := range r.sections(s, "addons", addonFields(), nil) {
		a := r.addon(f)
		if _, double := c.Addon(a.Name); double && a.Name != "" {
			r.failf(f.values["name"], join(f.field, "name"), "write another name", "%q is an add-on already", a.Name)
		}
		c.Addons = append(c.Addons, a)
	}
}

// Addon is the add-on of that name.
func (c *Contract) Addon(name string) (Addon, bool) {
	i := slices.IndexFunc(c.Addons, func(a Addon) bool { return a.Name == name })
	if i < 0 {
		return Addon{}, false
	}
	return c.Addons[i], true
}

// unit is that of the fee; none of a price on time.
func (a *Addon) unit() FeeUnit {
	if a.Fee == nil {
		return 0
	}
	return a.Fee.Unit
}

func (r *reader) addon(f section) Addon {
	var a Addon
	a.Name, _ = need(r, f, "name", "name it, such as support-gold", parseName)
	price := func(text string) (struct{}, error) {
		var err error
		if _, _, fee := feeUnitOf(text); fee {
			a.Fee, err = parseUnitFee(text, PerDay, PerWeek, PerMonth, PerQuarter, PerYear, Once)
		} else if a.Price, err = ParsePrice(text); err != nil {
			err = orFee(text, err)
		}
		return struct{}{}, err
	}
	_, priced := need(r, f, "price", "write 3000.00/month, 500.00/once or 3.20/gpu-hour", price)
	set(r, f, "prorate", "write true", parseBool, func(v bool) { a.Prorate = v })
	r.pay(f, &a.Advance)
	if priced {
		r.addonFits(f, &a)
	}
	return a
}

// orFee tells of a price without a known unit which one was meant: most add-ons are fees.
func orFee(text string, err error) error {
	number, unit, stated := strings.Cut(text, "/")
	if _, bad := parseMoney(number); bad != nil {
		return err
	}
	if !stated {
		return fmt.Errorf("unit is missing; write %[1]s/month, %[1]s/once or %[1]s/gpu-hour", number)
	}
	if near, ok := nearest.Of(unit, FeeUnitNames()); ok {
		return fmt.Errorf("unknown unit %.40q; write %s/%s", unit, number, near)
	}
	return err
}

// addonFits refuses what no bill could follow: parts of what has none, and whole fees in periods that are not their unit.
func (r *reader) addonFits(f section, a *Addon) {
	prorate, parts := f.values["prorate"]
	pay, pays := f.values["pay"]
	cycle := r.contract.Billing.Cycle
	switch {
	case a.Fee == nil && parts:
		r.failf(prorate, join(f.field, "prorate"), "remove it", "only a fee per day, week, month, quarter or year can be prorated")
	case a.Fee == nil && pays:
		r.failf(pay, join(f.field, "pay"), "remove it", "only a fee is paid in advance or arrears; time is billed when it is over")
	case a.Fee == nil || r.refusesFee(f, "price", a.Fee.Unit):
	case a.Fee.Unit == Once && parts:
		r.failf(prorate, join(f.field, "prorate"), "remove it", "a fee that is due once is whole")
	case a.Fee.Unit != Once && !a.Prorate && cycle != a.Fee.Unit.cycle():
		r.failf(f.node, f.field, "write prorate: true", "a whole fee per %s needs a %s cycle, not a %s one", a.Fee.Unit, a.Fee.Unit.cycle(), cycle)
	}
}
