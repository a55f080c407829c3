package contract

import (
	"maps"
	"slices"
)

// Before is the register as the facts in front of a position make it, for reading: what was decided then is decided alike
// when it is looked at again. It is the register itself when nothing was stated since.
func (r *Register) Before(seq uint64) *Register {
	if r.last < seq {
		return r
	}
	return r.copied(seq, false)
}

// KeptBefore is Before for one who keeps the answer while facts are still taken: nothing of it changes any more, not even the words of a
// version that a termination cuts.
func (r *Register) KeptBefore(seq uint64) *Register { return r.copied(seq, true) }

// copied is the register before a position; what both have in common is shared unless all is to be kept.
func (r *Register) copied(seq uint64, all bool) *Register {
	out := NewRegister()
	out.books = r.books.before(seq)
	out.versions = r.versions // a position names one version for ever, but for the one that a termination cuts
	out.lives, out.before = r.lives, seq
	listed, shared := r.books.since(seq), true
	if all {
		out.versions, shared = maps.Clone(r.versions), false
	}
	for id, a := range r.agreements {
		ended := a.terminated()
		if n := len(a.statements); n > 0 && (all || a.statements[n-1].Seq >= seq || ended && listed) {
			a = &agreement{id: id, statements: slices.DeleteFunc(slices.Clone(a.statements), func(s statement) bool { return s.Seq >= seq })}
			a.fold(out.listings)
			if ended && shared {
				out.versions, shared = maps.Clone(r.versions), false
			}
			if ended {
				for _, v := range a.versions {
					out.versions[v.Seq] = v
				}
			}
		}
		out.agreements[id] = a
		out.index(a)
	}
	out.readingsBefore(r, seq)
	for id, list := range r.purchases {
		out.purchases[id] = slices.DeleteFunc(slices.Clone(list), func(x Purchase) bool { return x.Seq >= seq })
		for i, x := range out.purchases[id] {
			out.bought[bought{id, x.Key}] = i
		}
	}
	for id, list := range r.ends {
		out.ends[id] = slices.DeleteFunc(slices.Clone(list), func(e ending) bool { return e.seq >= seq })
	}
	for id := range out.purchases {
		out.settleAll(id)
	}
	for id := range out.ends {
		out.settleEnds(id)
	}
	return out
}
