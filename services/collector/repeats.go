package collector

// Repeats counts how often a source that others refresh has shown the same: a look that shows what the look before showed measures
// nothing. One repeat is drift between two clocks of a second, and is believed, when what was shown before it was shown once:
// so a source that refreshes every second leaves no holes, and a slower one is seen once a refresh, in seconds that never stand side
// by side, by which bill_by: observed tells it (core/meter, slow_source).
type Repeats struct{ now, before int }

// Look counts a look that shows the same as the one before, or something new.
func (r *Repeats) Look(same bool) {
	if same && r.now > 0 {
		r.now++
		return
	}
	r.before, r.now = r.now, 1
}

// Fresh tells whether the last look measured its second.
func (r *Repeats) Fresh() bool { return r.now == 1 || r.now == 2 && r.before == 1 }
