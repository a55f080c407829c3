package occupancy

import (
	"github.com/gpuhour/gpuhour/core/span"
)

// Group is what the commitments of a contract cover together: a customer's leases of one SKU.
type Group struct{ Customer, SKU string }

// Group is the lease's group; it must have a start.
func (l *Lease) Group() Group { return Group{l.Started.Customer, l.Started.SKU} }

// groups finds the leases of a group by the days, of 86,400 seconds since 1970, in which they hold or end something. Those that run, and
// long ones, stand under always: a search may meet them in vain.
type groups map[Group]map[int64]map[*Lease]bool

const (
	always   = int64(-1)
	maxDays  = 400
	groupDay = 24 * span.SecondsPerHour
)

func days(s span.Span) (first, last int64) { return int64(s.From) / groupDay, int64(s.To-1) / groupDay }

// move takes a lease from the days of one span to those of another; empty ones have none.
func (g groups) move(l *Lease, from, to span.Span) {
	if l.Started == nil || from == to {
		return
	}
	of := g[l.Group()]
	if of == nil {
		of = map[int64]map[*Lease]bool{}
		g[l.Group()] = of
	}
	eachDay(from, func(day int64) { delete(of[day], l) })
	eachDay(to, func(day int64) {
		if of[day] == nil {
			of[day] = map[*Lease]bool{}
		}
		of[day][l] = true
	})
}

func eachDay(s span.Span, f func(day int64)) {
	first, last := days(s)
	switch {
	case s.Empty():
	case last-first > maxDays:
		f(always)
	default:
		for day := first; day <= last; day++ {
			f(day)
		}
	}
}

// Holders lists, in no order, the leases of a group that hold something in s, or have the last second of a start there, be it one
// without length.
func (b *Book) Holders(g Group, s span.Span) []*Lease {
	of := b.groups[g]
	first, last := days(s)
	found := map[*Lease]bool{}
	add := func(list map[*Lease]bool) {
		for l := range list {
			if !found[l] && len(l.Within(s)) > 0 {
				found[l] = true
			}
		}
	}
	add(of[always])
	if last-first < int64(len(of)) {
		for day := first; day <= last; day++ {
			add(of[day])
		}
	} else {
		for day, list := range of {
			if first <= day && day <= last {
				add(list)
			}
		}
	}
	out := make([]*Lease, 0, len(found))
	for l := range found {
		out = append(out, l)
	}
	return out
}
