package contract

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
)

// Addon is a charge beside the GPU time (design page 3b, Add-ons): a fee per month, or a price on all leased time.
type Addon struct {
	Name    string
	Monthly *big.Rat // fee of a month, or nil
	Prorate bool     // the fee counts local days; else it is whole in every period that the add-on is in force in
	Advance bool     // the fee of a period is paid when it begins; else when it closes
	Price   Price    // on leased time, where no fee is stated
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

func (r *reader) addon(f section) Addon {
	var a Addon
	a.Name, _ = need(r, f, "name", "name it, such as support-gold", parseName)
	price := func(text string) (struct{}, error) {
		var err error
		if strings.HasSuffix(text, "/month") {
			a.Monthly, err = parseMonthly(text)
		} else {
			a.Price, err = ParsePrice(text)
		}
		return struct{}{}, err
	}
	_, priced := need(r, f, "price", "write 3000.00/month or 3.20/gpu-hour", price)
	set(r, f, "prorate", "write true", parseBool, func(v bool) { a.Prorate = v })
	r.pay(f, &a.Advance)
	_, pays := f.values["pay"]
	switch _, stated := f.values["prorate"]; {
	case !priced:
	case a.Monthly != nil && r.refusesMonthly(f, "price"):
	case a.Monthly == nil && stated:
		r.failf(f.values["prorate"], join(f.field, "prorate"), "remove it", "only a fee per month can be prorated")
	case a.Monthly == nil && pays:
		r.failf(f.values["pay"], join(f.field, "pay"), "remove it", "only a fee per month is paid in advance or arrears; time is billed when it is over")
	case a.Monthly != nil && !a.Prorate && r.contract.Billing.Cycle != calendar.Monthly:
		r.failf(f.node, f.field, "write prorate: true", "a whole fee per month needs a monthly cycle, not a %s one", r.contract.Billing.Cycle)
	}
	return a
}

// parseMonthly reads 3000.00/month.
func parseMonthly(text string) (*big.Rat, error) {
	number, ok := strings.CutSuffix(text, "/month")
	if !ok {
		return nil, fmt.Errorf("%.60q is not per month; write 3000.00/month", text)
	}
	return parseMoney(number)
}

// MonthlyText writes a fee as a contract does: "3000.00/month".
func MonthlyText(fee *big.Rat, currency money.Currency) string {
	return money.DecimalText(fee, currency.Digits(), money.MaxDigits) + "/month"
}

// refusesMonthly refuses a fee per month under a cycle shorter than a day, of which local days say nothing.
func (r *reader) refusesMonthly(f section, key string) bool {
	if r.contract.Billing.Cycle != calendar.Hourly {
		return false
	}
	r.failf(f.values[key], join(f.field, key), "write a longer cycle", "an hourly cycle has no local days to share a month by")
	return true
}

// addonChange names what an amendment must not change of an add-on: a fee per month and a price on time are two lines of a bill, and
// a line has one name. The amounts may change.
func addonChange(versions []Version, c *Contract) string {
	for _, v := range versions {
		for _, a := range c.Addons {
			if before, ok := v.Contract.Addon(a.Name); ok && (before.Monthly == nil) != (a.Monthly == nil) {
				return "the unit of add-on " + a.Name
			}
		}
	}
	return ""
}
