package calendar

import (
	"testing"

	"pgregory.net/rapid"
)

// Case F45: twenty-two thirtieths from the 23rd on, in a month of 31 days, of 30, and in either February.
func TestFixedDays(t *testing.T) {
	for _, c := range []struct {
		n           int
		month, a, b string
		want        int
		next        string // else a month later, on the same day
	}{
		{n: 30, month: "2023-05-15", a: "2023-05-23", b: "2023-06-15", want: 22},
		{n: 30, month: "2023-06-15", a: "2023-06-23", b: "2023-07-15", want: 22},
		{n: 30, month: "2023-02-15", a: "2023-02-23", b: "2023-03-15", want: 22},
		{n: 30, month: "2024-02-15", a: "2024-02-23", b: "2024-03-15", want: 22},
		{n: 30, month: "2023-05-15", a: "2023-05-15", b: "2023-05-23", want: 8},
		{n: 28, month: "2023-05-15", a: "2023-05-23", b: "2023-06-15", want: 20},
		{n: 30, month: "2026-01-01", a: "2026-01-30", b: "2026-01-31", want: 0},
		{n: 30, month: "2026-01-01", a: "2026-01-31", b: "2026-02-01", want: 1},
		{n: 30, month: "2026-02-01", a: "2026-02-28", b: "2026-03-01", want: 3},
		{n: 30, month: "2024-02-01", a: "2024-02-29", b: "2024-03-01", want: 2},
		{n: 30, month: "2026-02-28", a: "2026-03-01", b: "2026-03-31", want: 27, next: "2026-03-31"},
		{n: 30, month: "2026-02-28", a: "2026-03-28", b: "2026-03-31", want: 0, next: "2026-03-31"},
		{n: 28, month: "2026-01-01", a: "2026-01-01", b: "2026-01-29", want: 27},
		{n: 28, month: "2026-01-01", a: "2026-01-29", b: "2026-01-31", want: 0},
	} {
		start, a, b := date(t, c.month), date(t, c.a), date(t, c.b)
		next := (start.month() + 1).day(start.Day)
		if c.next != "" {
			next = date(t, c.next)
		}
		if got := FixedDays(c.n, start, next, a, b); got != c.want {
			t.Errorf("%s to %s of the month from %s: %d of %d days, want %d", c.a, c.b, c.month, got, c.n, c.want)
		}
	}
}

func date(t *testing.T, text string) Date {
	t.Helper()
	d, err := ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// However an anchored month is cut, its parts sum to the whole, and none of them is negative: for every anchor, February included.
func TestFixedDaysSumUp(t *testing.T) {
	for _, n := range []int{28, 30} {
		for anchor := 1; anchor <= 31; anchor++ {
			for m := (Date{2023, 1, 1}).month(); m < (Date{2025, 1, 1}).month(); m++ {
				start, next := m.day(anchor), (m + 1).day(anchor)
				sum := 0
				for d := start; d.Compare(next) < 0; d = d.AddDays(1) {
					one := FixedDays(n, start, next, d, d.AddDays(1))
					if one < 0 || one > 3 {
						t.Fatalf("%s of the month from %s counts %d of %d days", d, start, one, n)
					}
					sum += one
				}
				if sum != n {
					t.Fatalf("the dates of the month from %s sum to %d of %d days", start, sum, n)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n, anchor := rapid.SampledFrom([]int{28, 30}).Draw(t, "n"), rapid.IntRange(1, 31).Draw(t, "anchor")
		m := (Date{2000, 1, 1}).month() + month(rapid.IntRange(0, 1200).Draw(t, "month"))
		start, next := m.day(anchor), (m + 1).day(anchor)
		sum := 0
		for a := start; a.Compare(next) < 0; {
			b := a.AddDays(rapid.IntRange(1, DaysBetween(a, next)).Draw(t, "days"))
			sum += FixedDays(n, start, next, a, b)
			a = b
		}
		if sum != n {
			t.Fatalf("the parts of the month from %s sum to %d of %d days", start, sum, n)
		}
	})
}
