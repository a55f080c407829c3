package gpuhour_test

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/replay"
)

// heldBySecond counts the trace's own file without any of the program's code: the milli-GPUs that each customer holds in each of
// the first days' seconds.
func heldBySecond(t *testing.T, days int) map[string][]int32 {
	t.Helper()
	file, err := os.Open("services/importer/openb/trace/openb_pod_list_default.csv")
	must(t, err)
	defer file.Close()
	pods, err := csv.NewReader(file).ReadAll()
	must(t, err)
	number := func(text string) int {
		v, err := strconv.Atoi(text)
		must(t, err)
		return v
	}
	held := map[string][]int32{}
	for _, pod := range pods[1:] {
		gpus, milli, qos, from, to := number(pod[3]), number(pod[4]), pod[6], pod[10], number(pod[9])
		if gpus == 0 || from == "" {
			continue
		}
		customer := "openb-" + strings.ToLower(qos)
		if held[customer] == nil {
			held[customer] = make([]int32, days*86400+1)
		}
		held[customer][number(from)] += int32(gpus * milli)
		held[customer][to] -= int32(gpus * milli)
	}
	for _, seconds := range held {
		for s := 1; s < len(seconds); s++ {
			seconds[s] += seconds[s-1]
		}
	}
	return held
}

// month is what a customer's seconds of one local month add up to, in milli-GPU-seconds.
type month struct{ day, night, covered, burst int64 }

// line is the milli-GPU-seconds and the amount of a line.
type line struct {
	Milli  int64
	Amount string
}

// counted goes through the seconds from the first one of 2026 in Shanghai: night is from 22:00 to 08:00, and capacity covers first.
func counted(seconds []int32, capacity int64) map[string]*month {
	months := map[string]*month{}
	shanghai := time.FixedZone("Shanghai", 8*3600)
	var m *month
	for s, milli := range seconds {
		if s%86400 == 0 {
			name := time.Date(2026, 1, 1, 0, 0, s, 0, shanghai).Format("2006-01")
			if months[name] == nil {
				months[name] = &month{}
			}
			m = months[name]
		}
		if hour := s % 86400 / 3600; hour >= 22 || hour < 8 {
			m.night += int64(milli)
		} else {
			m.day += int64(milli)
		}
		covered := min(int64(milli), capacity)
		m.covered += covered
		m.burst += int64(milli) - covered
	}
	return months
}

// cents is a quantity at a price in cents per 1,000 GPU-hours, rounded half up.
func cents(milliSeconds, price int64) string {
	const unit = 3_600_000 * 1000
	whole := milliSeconds / unit * price
	rest := (milliSeconds%unit*price*2 + unit) / (2 * unit)
	return fmt.Sprintf("%d.%02d", (whole+rest)/100, (whole+rest)%100)
}

// graduated is what the tiers 100 % up to 1,000 GPU-hours, 90 % up to 10,000 and 80 % beyond leave of a quantity, in hundredths.
func graduated(milliSeconds int64) int64 {
	const hours = 3_600_000
	first, second := min(milliSeconds, 1000*hours), min(milliSeconds, 10_000*hours)
	return first*100 + (second-first)*90 + (milliSeconds-second)*80
}

// TestOpenbUnderContracts: five months of a real cluster under a night window, under tiers and over a reservation cost, to the
// cent and line by line, what counting second by second gives.
func TestOpenbUnderContracts(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 12,406 facts three times; left out of -short")
	}
	const days, capacity, list = 190, 8_000, 1_200_000 // 12.00 an hour is 1,200,000 cents for 1,000 hours
	held := heldBySecond(t, days)
	for _, c := range []struct {
		name, rate, behind string
		lines              func(*month) map[string]line
	}{
		{"night", "", "schedule:\n  - {name: night, for: [on_demand], windows: [daily 22:00-08:00], off: 40%}\n", func(m *month) map[string]line {
			return map[string]line{"": {m.day, cents(m.day, list)}, "night": {m.night, cents(m.night, list*60/100)}}
		}},
		{"tiers", ", volume: {by: gpu-hours, method: graduated, tiers: [{upto: 1000, price: 100%}, {upto: 10000, price: 90%}, {price: 80%}]}", "", func(m *month) map[string]line {
			return map[string]line{"": {m.day + m.night, cents(graduated(m.day+m.night), list/100)}}
		}},
		{"reservation", ", reserved: [{name: base, quantity: 8, price: 5000.00/gpu-month, from: 2026-01-01, to: 2027-01-01}]", "", func(m *month) map[string]line {
			return map[string]line{"": {m.burst, cents(m.burst, list)}, "base": {m.covered, "0.00"}, "reserved": {0, "40000.00"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := traced("", c.rate, c.behind)
			must(t, err)
			r, err := replay.Run(w.log(), replay.Options{Series: "GH"})
			must(t, err)
			if len(r.Blocked) > 0 || len(r.Refusals) > 0 {
				t.Fatalf("blocked: %v, refused: %v", r.Blocked, r.Refusals)
			}
			want, got := map[string]map[string]line{}, map[string]map[string]line{}
			for customer, seconds := range held {
				for name, m := range counted(seconds, capacity) {
					if name > "2026-06" {
						continue // still open when the trace is over
					}
					lines := c.lines(m)
					maps.DeleteFunc(lines, func(_ string, l line) bool { return l == line{0, "0.00"} }) // no time is no line
					want[customer+" "+name] = lines
				}
			}
			for _, i := range r.Invoices {
				lines := map[string]line{}
				for _, l := range i.Document.Lines {
					lines[string(l.Item)+l.Window+l.Commitment] = line{l.Quantity.MilliGPUSeconds, l.Amount}
				}
				got[i.Document.Customer+" "+i.Document.Period.From[:7]] = lines
			}
			if len(want) != 24 {
				t.Errorf("%d months of customers, want 24", len(want))
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Errorf("(-counted +billed)\n%s", d)
			}
		})
	}
}
