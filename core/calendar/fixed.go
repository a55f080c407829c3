package calendar

// FixedDays is how many of the n days of a month of fixed length the dates from a to b, without b, count for: start is the month's first
// date, next that of the one behind it. A date stands at its day of the month, at most n, counted on from the day of start; start stands at 0
// and next at n. So the parts of a month sum to n however it is cut (case F45). A 30th before a 31st counts for nothing where n is 30, and
// the last of a February for what the month lacks.
func FixedDays(n int, start, next, a, b Date) int {
	at := func(d Date) int {
		switch {
		case d.Compare(start) <= 0:
			return 0
		case d.Compare(next) >= 0:
			return n
		}
		return min(int(d.month()-start.month())*n+min(d.Day, n)-min(start.Day, n), n)
	}
	return at(b) - at(a)
}
