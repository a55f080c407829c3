package replay_test

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
)

// deal draws a contract whose term begins around a day.
func (w *world) deal(t *rapid.T, i int, first time.Time) *deal {
	d := &deal{id: fmt.Sprintf("c%d", i), customer: fmt.Sprintf("customer-%d", i)}
	if w.together {
		d.customer = "customer-0"
	}
	d.text = w.document(t, d, first)
	c, err := contract.Parse("c.yaml", []byte(d.text))
	if err != nil || w.fit != nil && !w.fit(c) {
		d.text = plain(d.text)
		c, err = contract.Parse("c.yaml", []byte(d.text))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, d.text)
	}
	d.versions = []*contract.Contract{c}
	return d
}

// document is a random contract in the name of the deal, moved to its time.
func (w *world) document(t *rapid.T, d *deal, first time.Time) string {
	parts := clauses(random.Contract(chooser(t)))
	parts["contract"], parts["customer"] = "contract: "+d.id+"\n", "customer: "+d.customer+"\n"
	if w.rates != nil {
		delete(parts, "price_book")
		delete(parts, "packages")
		delete(parts, "bundles")
		parts["rates"] = w.rates(chooser(t))
	}
	if w.meters != nil {
		delete(parts, "bundles")
		delete(parts, "states")
		parts["meters"] = w.meters(chooser(t))
	}
	text := join(parts)
	date := regexp.MustCompile(`\d{4}-\d{2}-\d{2}`)
	begins, err := time.Parse(time.DateOnly, date.FindString(text))
	if err != nil {
		t.Fatal(err)
	}
	bound := func(days int) string { return begins.AddDate(0, 0, days).Format(time.DateOnly) }
	text = strings.NewReplacer("FROM", bound(0), "TO", bound(3)).Replace(text)
	return date.ReplaceAllStringFunc(text, func(old string) string {
		at, _ := time.Parse(time.DateOnly, old)
		return at.Add(first.Sub(begins)).Format(time.DateOnly)
	})
}

func order() []string {
	return strings.Fields("contract customer currency timezone term billing price_book rates schedule idle_relief packages meters bundles addons commitment limits states termination arrears trial")
}

// clauses cuts a document at its root.
func clauses(text string) map[string]string {
	out := map[string]string{}
	key := ""
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			key, _, _ = strings.Cut(line, ":")
		}
		out[key] += line
	}
	return out
}

func join(parts map[string]string) string {
	out := ""
	for _, key := range order() {
		out += parts[key]
	}
	return out
}

// plain keeps the head, the meters and the add-ons of a contract.
func plain(text string) string {
	parts := clauses(text)
	for _, key := range []string{"price_book", "schedule", "idle_relief", "packages", "bundles", "commitment", "limits", "states", "termination"} {
		delete(parts, key)
	}
	parts["rates"] = "rates: [{sku: a100, on_demand: 36.00/gpu-hour, region: {cn-east: 100%, eu-1: 88%}}, {sku: h100-80g, on_demand: 7.001/gpu-minute, spot: {index: h100-80g}}]\n"
	lines := ""
	for line := range strings.Lines(parts["billing"]) {
		if !strings.Contains(line, "minimum") && !strings.Contains(line, "granularity") && !strings.Contains(line, "bill_by") {
			lines += line
		}
	}
	if parts["billing"] = lines; strings.Count(lines, "\n") == 1 {
		delete(parts, "billing")
	}
	return join(parts)
}

// amended is the contract with some of its clauses those of another, or gone; "" when that is none that could be signed.
func (w *world) amended(t *rapid.T, d *deal, first time.Time) (string, *contract.Contract) {
	parts, other := clauses(d.text), clauses(w.document(t, d, first))
	choose := chooser(t)
	for _, key := range []string{"rates", "schedule", "idle_relief", "packages", "addons", "commitment", "limits", "termination"} {
		switch choose(4) {
		case 0:
			parts[key] = other[key]
		case 1:
			if key != "rates" {
				delete(parts, key)
			}
		}
	}
	w.restate(t, parts, d.versions[0].Meters)
	if choose(4) == 0 { // closes a stub
		parts["timezone"] = other["timezone"]
	}
	if end := d.versions[0].Trial.To; end > 0 && choose(2) == 0 { // as it was signed, in whatever zone
		parts["trial"] = fmt.Sprintf("trial: {until: %q}\n", end)
	}
	switch choose(6) { // closes one too, with the fees that the cycle allows
	case 0:
		parts["billing"], parts["addons"], parts["commitment"] = other["billing"], other["addons"], other["commitment"]
	case 1:
		cycle := []string{"hourly", "daily", "weekly, anchor: 3", "weekly", "biweekly, anchor: 5", "biweekly", "monthly, anchor: 2", "monthly, anchor: 31", "quarterly"}[choose(9)]
		parts["billing"] = "billing: {grace: 0, cycle: " + cycle + "}\n"
		if delete(parts, "addons"); cycle == "hourly" {
			delete(parts, "commitment")
		}
	}
	if choose(2) == 0 {
		parts["meters"] = reworded(choose, parts["meters"])
	}
	text := join(parts)
	for _, change := range [][2]string{{"minimum: 60s", "minimum: 15m"}, {"rounding: up", "rounding: down"}, {"bill_by: observed", "bill_by: leased"}, {"\n  month: 30d", "\n  month: actual"}, {"fee_month: 30d", "fee_month: 28d"}} {
		if choose(2) == 0 {
			text = strings.ReplaceAll(text, change[0], change[1])
		}
	}
	c, err := contract.Parse("c.yaml", []byte(text))
	if err != nil || w.fit != nil && !w.fit(c) || d.turns(c) {
		return "", nil
	}
	return text, c
}

// reworded prices meters by other words; what their readings mean stays.
func reworded(choose random.Chooser, meters string) string {
	for _, change := range [][2]string{
		{"35.00", "40.00"}, {"4.5", "3"}, {"125%", "75%"}, {"88%", "100%"}, {"1000,", "100,"}, {"graduated", "volume"}, {"level", "quantity"}, {"always", "used"},
	} {
		switch choose(4) {
		case 0:
			meters = strings.ReplaceAll(meters, change[0], change[1])
		case 1:
			meters = strings.ReplaceAll(meters, change[1], change[0])
		}
	}
	return meters
}

// restate lets other parts bill in the states, or forgets them.
func (w *world) restate(t *rapid.T, parts map[string]string, meters []contract.Meter) {
	choose := chooser(t)
	part := func() string { return []string{"0%", "30%", "100%", "200%"}[choose(4)] }
	switch choose(4) {
	case 0:
		delete(parts, "states")
	case 1:
		parts["states"] = "states:\n"
		for _, state := range []string{"suspended", "stopped"} {
			line := "gpu: " + part()
			for _, m := range meters {
				if m.Aggregate == contract.TimeWeighted && choose(2) == 0 {
					line += ", " + m.Name + ": " + part()
				}
			}
			parts["states"] += "  " + state + ": {" + line + "}\n"
		}
	}
}

// turns tells whether a fee of the deal has another unit elsewhere, or a slice is one of another SKU: an amendment must not do that.
func (d *deal) turns(c *contract.Contract) bool {
	for _, v := range d.versions {
		if contract.Unamendable(v, c) != "" {
			return true
		}
	}
	return false
}
