package price

import "github.com/gpuhour/gpuhour/core/must"

// window multiplies by the factor of the schedule window that holds: one at most, whichever the condition names (page 3b, Order of
// prices).
func window(q *query, l *line) *Refusal {
	if q.Window == "" {
		return nil
	}
	w := q.Contract.Schedule.Window(q.Window)
	must.True(w != nil, "contract %s has no window %q", q.Contract.ID, q.Window)
	l.multiply("window", w.Name+" "+w.Text, w.Factor)
	return nil
}
