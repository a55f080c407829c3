package sim

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
)

// truth is what a list of facts comes to, found second by second: no spans, hours, masks or differences.
type truth struct {
	held map[cell]coverage // leased milli-seconds
	sold map[sold]int64    // priced milli-seconds, top-ups included
	// devices is what samples say of devices while somebody held them.
	devices map[string]*deviceTruth
	decided
	// secondsHeld counts device-seconds, whatever their share, for the figures.
	secondsHeld int64
}

// cell is one lease's time on one device under one contract and period, with its standing and the reason for it.
type cell struct{ lease, device, contract, period, standing, reason string }

// deviceTruth counts seconds of a device under leases: seen, seen busy, and ghosts: the node spoke and the device was neither
// seen nor inferred.
type deviceTruth struct{ seen, busy, ghost, lastCounted int64 }

type coverage struct{ leased, measured, inferred, missing int64 }

// line is what rounds alone.
type line struct {
	contract, period string
	goods
	item, name string // of a fee
}

// goods are what a lease has of a rate.
type goods struct {
	sku, region, tier string
	dedicated         bool
}

func (t *tenant) goods() goods {
	return goods{t.start.SKU, t.start.Region, t.start.ServiceTier, t.start.Dedicated}
}

type sold struct {
	line
	seq uint64 // of the version whose price holds
}

// version is one document of a contract, in force from an instant.
type version struct {
	seq  uint64
	from int64
	*terms
}

// walker goes over the seconds.
type walker struct {
	truth
	tenants   []*tenant
	contracts map[string][]version // by contract, in order of (from, seq)
	samples   *samples
	declared  []*fact.DeviceDeclared // in order of (at, seq)
	last      int64
	empties   []empty // of the instant at hand
}

// observe finds the truth of facts, the first of each key, up to an instant.
func observe(facts []fact.Fact, known map[string]*terms, s *samples, until int64) *truth {
	w := walker{
		truth:     truth{held: map[cell]coverage{}, sold: map[sold]int64{}, devices: map[string]*deviceTruth{}, decided: newDecided()},
		contracts: map[string][]version{}, samples: s,
	}
	instants := w.sort(facts, known)
	instants = append(instants, until)
	slices.Sort(instants)
	instants = slices.Compact(instants)
	at := instants[0]
	for i := 0; at < until; at++ {
		if at == instants[i] {
			i++
			w.turn(at)
			if !slices.ContainsFunc(w.tenants, func(t *tenant) bool { return len(t.parts) > 0 }) {
				at = instants[i] - 1 // nobody holds anything
				continue
			}
		} else if at%60 == 0 {
			w.flush() // a period may begin with any minute
		}
		w.last = at
		w.count(at)
	}
	w.turn(until)
	w.flush()
	return &w.truth
}

// sort deals the facts out and lists the instants at which something may change.
func (w *walker) sort(facts []fact.Fact, known map[string]*terms) (instants []int64) {
	leases := map[string]*tenant{}
	for _, f := range facts {
		switch b := f.Body.(type) {
		case *fact.ContractSigned:
			t := known[b.Document]
			if t != nil && len(w.contracts[b.Contract]) == 0 {
				w.contracts[b.Contract] = []version{{f.Seq, t.from, t}}
				instants = append(instants, t.from, t.to)
			}
		case *fact.ContractAmended:
			if t := known[b.Document]; t != nil && len(w.contracts[b.Contract]) > 0 {
				from := max(int64(b.Effective), t.from)
				w.contracts[b.Contract] = append(w.contracts[b.Contract], version{f.Seq, from, t})
				instants = append(instants, from, t.to)
			}
		case *fact.DeviceDeclared:
			w.declared = append(w.declared, b)
			instants = append(instants, int64(b.At))
		case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped, *fact.RefusalWaived:
			id := f.Body.Entity()
			if ofMarket(id) {
				continue
			}
			if leases[id] == nil {
				leases[id] = &tenant{}
				w.tenants = append(w.tenants, leases[id])
			}
			instants = append(instants, leases[id].take(f)...)
		}
	}
	slices.SortStableFunc(w.declared, func(a, b *fact.DeviceDeclared) int { return cmp.Compare(a.At, b.At) })
	for id := range w.contracts {
		slices.SortStableFunc(w.contracts[id], func(a, b version) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.seq, b.seq)) })
	}
	for _, t := range w.tenants {
		slices.SortStableFunc(t.steps, func(a, b fact.Fact) int {
			return cmp.Or(cmp.Compare(instant(a.Body), instant(b.Body)), cmp.Compare(rank(a.Body), rank(b.Body)), cmp.Compare(a.Seq, b.Seq))
		})
	}
	return instants
}

// turn is an instant at which something may change: what was counted is put down, the steps are taken, devices dealt out.
func (w *walker) turn(at int64) {
	w.flush()
	for _, t := range w.tenants {
		t.before = nil
		for _, p := range t.parts {
			copied := *p
			t.before = append(t.before, &copied)
		}
	}
	for _, t := range w.tenants {
		for t.nextStep < len(t.steps) && instant(t.steps[t.nextStep].Body) <= at {
			w.step(t, t.steps[t.nextStep], at)
			t.nextStep++
		}
	}
	w.deal(at)
	w.sellEmpties()
}

// step takes one fact of a lease. What comes before its start, after its stop, or is a second start, changes nothing.
func (w *walker) step(t *tenant, f fact.Fact, at int64) {
	if t.start == nil || t.stopped || instant(f.Body) < int64(t.start.At) {
		return
	}
	switch b := f.Body.(type) {
	case *fact.LeaseStarted:
		if b == t.start {
			t.holds = holds(b.Devices, b.Count, b.ShareMilli)
			t.begin(at, f.Seq)
		}
	case *fact.LeaseResized:
		t.holds = holds(b.Devices, b.Count, b.ShareMilli)
		if t.running {
			t.grasp(at, f.Seq)
		}
	case *fact.LeaseStateChanged:
		if b.State == fact.Running && !t.running {
			t.begin(at, f.Seq)
		} else if b.State != fact.Running && t.running {
			w.end(t, at, fact.ByCustomer)
		}
	case *fact.LeaseStopped:
		if t.running {
			w.end(t, at, b.By)
		}
		t.stopped = b.By != fact.ByFault
	}
}

// saleable is how many milli of a device may be sold at once: 1000 unless something was declared.
func (w *walker) saleable(device string, at int64) int64 {
	milli := int64(1000)
	for _, d := range w.declared {
		if d.Device == device && int64(d.At) <= at {
			milli = d.SaleableMilli
		}
	}
	return milli
}

// deal gives what is saleable of every device to who began first.
func (w *walker) deal(at int64) {
	var all []*part
	for _, t := range w.tenants {
		all = append(all, t.parts...)
	}
	slices.SortStableFunc(all, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.seq, b.seq), cmp.Compare(a.lease, b.lease))
	})
	given, once := map[string]int64{}, map[string]int64{}
	for _, p := range all {
		p.granted, p.once = p.milli, p.milli
		if p.device != "" {
			p.granted = min(p.milli, w.saleable(p.device, at)-given[p.device])
			given[p.device] += p.granted
			p.once = min(p.milli, 1000-once[p.device])
			once[p.device] += p.once
		}
	}
}

// count is one second.
func (w *walker) count(at int64) {
	for _, t := range w.tenants {
		for _, p := range t.parts {
			w.secondsHeld++
			p.leased++
			if w.samples == nil || p.device == "" {
				continue
			}
			state := w.samples.states[p.device][at]
			switch state {
			case seen:
				p.measured++
			case inferred:
				p.inferred++
			}
			w.countDevice(p.device, at, state)
		}
	}
}

// countDevice counts a held device's second once, however many hold it.
func (w *walker) countDevice(device string, at int64, state byte) {
	d := w.devices[device]
	if d == nil {
		d = &deviceTruth{}
		w.devices[device] = d
	}
	if d.lastCounted == at {
		return
	}
	d.lastCounted = at
	node, _, _ := strings.Cut(device, "/")
	switch {
	case state == seen:
		d.seen++
		if w.samples.devices[device][at].busy > 5 {
			d.busy++
		}
	case state == 0 && w.samples.spoken[node][at]:
		d.ghost++
	}
}

// flush puts down what was counted under the conditions of the last second.
func (w *walker) flush() {
	for _, t := range w.tenants {
		for _, p := range t.parts {
			if p.leased > 0 {
				w.put(t, p)
				p.leased, p.measured, p.inferred = 0, 0, 0
			}
		}
	}
}

func (w *walker) put(t *tenant, p *part) {
	v, reason := w.resolve(t, w.last)
	c := cell{lease: t.start.Lease, device: p.device, standing: "priced", reason: reason}
	if v != nil {
		c.contract, c.period = v.id, v.period(w.last)
		if _, why := v.price(t.goods()); why != "" {
			c.reason = why
		}
	}
	refused := "refused"
	if in(t.waived, w.last) {
		refused = "waived"
	}
	if c.reason != "" {
		c.standing = refused
	}
	w.add(c, p, p.granted)
	if c.standing == "priced" {
		w.sell(t, v, c.period, p.granted*p.leased)
		w.weigh(p.lease+" "+p.device, p.granted*p.leased, p.once*p.leased)
		c.standing, c.reason = refused, "overlap"
	}
	w.add(c, p, p.milli-p.granted)
}

func (w *walker) add(c cell, p *part, milli int64) {
	if milli == 0 {
		return
	}
	h := w.held[c]
	h.leased += p.leased * milli
	h.measured += p.measured * milli
	h.inferred += p.inferred * milli
	h.missing = h.leased - h.measured - h.inferred
	w.held[c] = h
}

func (w *walker) sell(t *tenant, v *version, period string, milliSeconds int64) {
	l := line{contract: v.id, period: period, goods: t.goods()}
	w.sold[sold{l, v.seq}] += milliSeconds
}

// end closes a start and charges what minimum and granularity ask for beyond its seconds.
func (w *walker) end(t *tenant, at int64, by fact.EndedBy) {
	elapsed := at - t.began
	t.running, t.parts, t.endedBy = false, nil, by
	if by == fact.ByProvider || by == fact.ByFault {
		return
	}
	stop := at
	v, _ := w.resolve(t, stop)
	if v == nil {
		stop = max(at-1, t.began)
		v, _ = w.resolve(t, stop)
	}
	if v == nil {
		return
	}
	if _, why := v.price(t.goods()); why != "" {
		return
	}
	billable := elapsed
	for billable%v.granularity != 0 {
		billable++
	}
	if !t.afterFault {
		billable = max(billable, v.minimum)
	}
	if elapsed == 0 {
		w.empties = append(w.empties, empty{t, v, v.period(stop), billable, t.began, t.seq, slices.Clone(t.holds)})
		return
	}
	var milli int64
	for _, p := range t.before {
		milli += p.granted
	}
	w.sell(t, v, v.period(stop), milli*(billable-elapsed))
}

// empty is a start that ended in its own second. It comes behind those that hold the second and began before it: what they have,
// nobody else pays for.
type empty struct {
	*tenant
	v        *version
	period   string
	billable int64
	at       int64
	seq      uint64
	holds    []hold
}

// sellEmpties charges them when everybody's steps of the instant are taken and the devices are dealt out.
func (w *walker) sellEmpties() {
	for _, e := range w.empties {
		var milli int64
		for _, h := range e.holds {
			room := w.saleable(h.device, e.at)
			for _, t := range w.tenants {
				for _, p := range t.parts {
					if t != e.tenant && h.device != "" && p.device == h.device && (p.began < e.at || p.began == e.at && p.seq < e.seq) {
						room -= p.granted
					}
				}
			}
			if h.device == "" {
				room = h.milli
			}
			milli += min(h.milli, max(0, room))
		}
		w.sell(e.tenant, e.v, e.period, milli*e.billable)
	}
	w.empties = nil
}

// resolve finds the version of a lease's contract in force at a second.
func (w *walker) resolve(t *tenant, at int64) (*version, string) {
	if name := t.start.Contract; name != "" {
		list := w.contracts[name]
		switch {
		case len(list) == 0:
			return nil, "unknown_contract"
		case list[0].customer != t.start.Customer:
			return nil, "wrong_customer"
		}
		if v := inForce(list, at); v != nil {
			return v, ""
		}
		return nil, "outside_term"
	}
	var found *version
	for _, list := range w.contracts {
		if v := inForce(list, at); v != nil && v.customer == t.start.Customer {
			if found != nil {
				return nil, "ambiguous_contract"
			}
			found = v
		}
	}
	if found == nil {
		return nil, "no_contract"
	}
	return found, ""
}

func inForce(list []version, at int64) *version {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].from <= at {
			if at < list[i].to && list[i].terms.from <= at {
				return &list[i]
			}
			return nil
		}
	}
	return nil
}

// amounts is the exact price of every line.
func (t *truth) amounts(versions map[uint64]*terms, wanted func(line) bool) map[line]*big.Rat {
	out := map[line]*big.Rat{}
	for s, milliSeconds := range t.sold {
		if !wanted(s.line) {
			continue
		}
		price, _ := versions[s.seq].price(s.goods)
		if out[s.line] == nil {
			out[s.line] = new(big.Rat)
		}
		out[s.line].Add(out[s.line], price.Mul(price, new(big.Rat).SetInt64(milliSeconds)))
	}
	return out
}
