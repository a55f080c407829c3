package meter

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// player tells a state blocks, one after the other.
type player struct {
	*tables
	state *State
	block uint64
	fact  uint64
}

func newPlayer(bodies ...fact.Body) *player {
	p := &player{tables: newTables(), state: NewState(), fact: 1}
	p.tell(midnight-7200, nil, bodies...)
	return p
}

func (p *player) tell(at span.Second, list []usage.Batch, bodies ...fact.Body) Outcome {
	p.block += 1000
	b := Block{Seq: p.block, At: at, Usage: messages(p.block-999, list...), Facts: numbered(p.fact, bodies...)}
	p.fact += uint64(len(bodies))
	return p.play(p.state, b)
}

func (p *player) cut(at span.Second) Outcome {
	return p.tell(at, nil, &fact.CutRequested{Cut: fmt.Sprint("cut-", p.block), At: at})
}

// told is the ledger by standing, reason, kind and coverage, in whole GPU-seconds.
func (p *player) told() map[string]int64 {
	out := map[string]int64{}
	for e, a := range p.ledger {
		name := string(e.Key.Kind) + " " + string(e.Key.Standing)
		if e.Key.Reason != "" {
			name += " " + e.Key.Reason
		}
		out[name] += a.Quantity / 1000
	}
	return out
}

func (p *player) coverage() (sum Amounts) {
	for _, a := range p.ledger {
		sum = sum.Plus(a)
	}
	return Amounts{sum.Quantity / 1000, sum.Measured / 1000, sum.Inferred / 1000, sum.Missing / 1000}
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func daily(billing string) *fact.ContractSigned {
	return signed("c1", document("c1", "daily", billing, "3.60"))
}

func stop(id string, at span.Second, by fact.EndedBy) fact.Body {
	return &fact.LeaseStopped{Lease: id, At: at, By: by}
}

// TestStopBeforeAnOpenHourThatWasCut: a cut classifies open hours; a stop that arrives next and lies before them must take
// back what the cut put, although nothing is leased in them any more when they close.
func TestStopBeforeAnOpenHourThatWasCut(t *testing.T) {
	p := newPlayer(daily(""), lease("L", midnight-7200))
	p.cut(midnight - 60)
	diff(t, map[string]int64{"leased priced": 7140}, p.told())
	p.tell(midnight-50, nil, stop("L", midnight-6000, fact.ByCustomer))
	p.tell(midnight+7200, nil)
	diff(t, map[string]int64{"leased priced": 1200}, p.told())
}

func TestOpenHoursAtACutAreNotCountedTwice(t *testing.T) {
	p := newPlayer(daily(""), lease("L", midnight-7200, share("A", 1000)))
	for _, at := range []span.Second{midnight - 1801, midnight - 1800, midnight - 1700, midnight - 90, midnight + 1900} {
		p.cut(at)
		diff(t, map[string]int64{"leased priced": int64(at - midnight + 7200)}, p.told())
	}
	p.tell(midnight+5520, nil)
	diff(t, map[string]int64{"leased priced": 7200 + 5400}, p.told())
}

func TestCutCountsOpenMinutes(t *testing.T) {
	p := newPlayer(daily(""), lease("L", midnight, share("A", 1000)))
	p.tell(midnight+20, []usage.Batch{batch("n1", 1, 1, span.Span{From: midnight, To: midnight + 10}, 90, "A")})
	p.cut(midnight + 25)
	diff(t, Amounts{25, 10, 0, 15}, p.coverage())
	p.tell(midnight+26, []usage.Batch{batch("n1", 1, 2, span.Span{From: midnight + 14, To: midnight + 25}, 90, "A")})
	p.cut(midnight + 27)
	diff(t, Amounts{27, 21, 4, 2}, p.coverage())
}

// TestLateSampleChangesTheNeighbourHour: the gap over a full hour is inferred from both sides.
func TestLateSampleChangesTheNeighbourHour(t *testing.T) {
	hour := midnight - 1800
	p := newPlayer(daily(""), lease("L", hour-60, share("A", 1000)), stop("L", hour+60, fact.ByProvider))
	p.tell(hour+10, []usage.Batch{batch("n1", 1, 1, span.Span{From: hour - 60, To: hour - 4}, 90, "A")})
	p.tell(hour+7200, nil)
	diff(t, Amounts{120, 56, 0, 64}, p.coverage())
	p.tell(hour+7300, []usage.Batch{batch("n1", 1, 2, span.Span{From: hour + 3, To: hour + 5}, 90, "A")})
	diff(t, Amounts{120, 58, 7, 55}, p.coverage())
}

func TestWaivedTimeTakesItsTopUpAlong(t *testing.T) {
	refused := func(id string, at span.Second) *fact.LeaseStarted {
		l := lease(id, at)
		l.Region = "elsewhere"
		return l
	}
	p := newPlayer(daily(", minimum: 60s"), refused("L", midnight), stop("L", midnight+10, fact.ByCustomer), refused("M", midnight), stop("M", midnight, fact.ByCustomer))
	p.tell(midnight+7200, nil)
	diff(t, map[string]int64{"leased refused no_region": 10, "top_up refused no_region": 110}, p.told())
	waive := func(id string) fact.Body {
		return &fact.RefusalWaived{Lease: id, From: midnight, To: midnight + 10, By: "ops"}
	}
	p.tell(midnight+7201, nil, waive("L"), waive("M"))
	diff(t, map[string]int64{"leased waived no_region": 10, "top_up waived no_region": 110}, p.told())
}

func TestTopUps(t *testing.T) {
	at := midnight + 100
	both := func(elapsed span.Second, by fact.EndedBy) []fact.Body {
		return []fact.Body{lease("L", at, share("A", 1000), share("B", 1000)), stop("L", at+elapsed, by)}
	}
	tests := []struct {
		name    string
		billing string
		facts   []fact.Body
		want    map[string]int64
	}{
		{"eight times nothing", ", minimum: 60s", both(0, fact.ByCustomer), map[string]int64{"top_up priced": 120}},
		{"minimum", ", minimum: 60s", both(59, fact.ByExpired), map[string]int64{"leased priced": 118, "top_up priced": 2}},
		{"minimum reached", ", minimum: 60s", both(60, fact.ByCustomer), map[string]int64{"leased priced": 120}},
		{"granularity", ", granularity: minute", both(61, fact.ByArrears), map[string]int64{"leased priced": 122, "top_up priced": 118}},
		{"the larger of both", ", granularity: minute, minimum: 90s", both(10, fact.ByCustomer), map[string]int64{"leased priced": 20, "top_up priced": 160}},
		{"provider", ", minimum: 60s", both(10, fact.ByProvider), map[string]int64{"leased priced": 20}},
		{"fault", ", granularity: hour", both(10, fact.ByFault), map[string]int64{"leased priced": 20}},
		{
			"restart after a fault has no minimum, but its grain", ", granularity: minute, minimum: 1h",
			append(both(10, fact.ByFault), &fact.LeaseStateChanged{Lease: "L", At: at + 20, State: fact.Running}, stop("L", at+30, fact.ByCustomer)),
			map[string]int64{"leased priced": 40, "top_up priced": 100},
		},
		{
			"each start", ", minimum: 60s",
			[]fact.Body{
				lease("L", at), &fact.LeaseStateChanged{Lease: "L", At: at + 10, State: fact.Suspended},
				&fact.LeaseStateChanged{Lease: "L", At: at + 20, State: fact.Running}, stop("L", at+30, fact.ByCustomer),
			},
			map[string]int64{"leased priced": 20, "top_up priced": 100},
		},
		{
			"nobody tops up what another holds", ", minimum: 60s",
			[]fact.Body{
				lease("K", at-100, share("A", 700)), stop("K", at+500, fact.ByCustomer),
				lease("L", at, share("A", 1000)), stop("L", at+10, fact.ByCustomer),
			},
			map[string]int64{"leased priced": 600*7/10 + 3, "leased refused overlap": 7, "top_up priced": 15, "top_up refused overlap": 35},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlayer(append([]fact.Body{daily(tt.billing)}, tt.facts...)...)
			p.tell(midnight+7200, nil)
			diff(t, tt.want, p.told())
		})
	}
}

// TestTopUpTakesTheVersionAndPeriodOfTheStop: stopped at a local midnight, half an hour after a full hour.
func TestTopUpTakesTheVersionAndPeriodOfTheStop(t *testing.T) {
	p := newPlayer(daily(", minimum: 60s"), lease("L", midnight-10), stop("L", midnight, fact.ByCustomer))
	p.tell(midnight+7200, nil)
	p.tell(midnight+7201, nil, &fact.ContractAmended{Contract: "c1", Effective: midnight, Document: document("c1", "daily", ", minimum: 100s", "7.20")})
	got := map[string]int64{}
	for e, a := range p.ledger {
		got[fmt.Sprintf("%s %v version %d of %v", e.Key.Kind, e.Key.Day(), e.Key.Version, e.Key.PeriodStart)] += a.Quantity
	}
	diff(t, map[string]int64{
		"leased 2026-01-06 version 1 of 2026-01-05T18:30:00Z": 10_000, "top_up 2026-01-07 version 4 of 2026-01-06T18:30:00Z": 90_000,
	}, got)
}

// TestPeriodsOfALaterVersionBeginEarlier: that the weeks began a day before is learnt when a day of them was looked at last.
func TestPeriodsOfALaterVersionBeginEarlier(t *testing.T) {
	weekly := func(at span.Second) *fact.ContractAmended { // from Saturday; midnight begins a Wednesday
		return &fact.ContractAmended{Contract: "c1", Effective: at, Document: document("c1", "weekly, anchor: 6", "", "3.60")}
	}
	p := newPlayer(daily(""), weekly(midnight-3600), lease("L", midnight+1800), stop("L", midnight+5400, fact.ByCustomer))
	p.tell(midnight+9000, nil)
	p.tell(midnight+9001, nil, weekly(midnight-7200))
	starts := map[string]int64{}
	for e, a := range p.ledger {
		starts[e.Key.PeriodStart.String()] += a.Quantity
	}
	diff(t, map[string]int64{(midnight - 7200).String(): 3_600_000}, starts)
}

func TestPeriodsAndDaysOfHalfHourZones(t *testing.T) {
	p := newPlayer(signed("c1", document("c1", "hourly", "", "3.60")), lease("L", midnight-5400), stop("L", midnight+5400, fact.ByCustomer))
	p.tell(midnight+9000, nil)
	got := map[string]int64{}
	for e, a := range p.ledger {
		got[fmt.Sprint(e.Key.Day(), " ", int64(e.Key.PeriodStart-midnight))] += a.Quantity / 1000
	}
	diff(t, map[string]int64{"2026-01-06 -7200": 1800, "2026-01-06 -3600": 3600, "2026-01-07 0": 3600, "2026-01-07 3600": 1800}, got)
	diff(t, calendar.Date{Year: 2026, Month: 1, Day: 6}, ChargeKey{LocalDay: 20260106}.Day())
}

// TestClockJumpsOverMonths: every hour of a lease is closed by one tick, and nothing else is looked at.
func TestClockJumpsOverMonths(t *testing.T) {
	p := newPlayer(daily(""), lease("L", midnight, share("A", 500)))
	p.tell(midnight+30, []usage.Batch{batch("n1", 1, 1, span.Span{From: midnight, To: midnight + 30}, 90, "A")})
	const months = 90 * 24 * 3600
	p.tell(midnight+months+1800+HourDelaySeconds, nil)
	diff(t, months/2+900, int(p.quantity(func(Entry) bool { return true })/1000))
	needs := p.state.Begin(Block{Seq: p.block + 1, At: midnight + months + 1800 + HourDelaySeconds + 1})
	diff(t, Needs{}, needs)
}

func TestSamplesBeforeTheLease(t *testing.T) {
	p := newPlayer(daily(""))
	minute := span.Span{From: midnight, To: midnight + 60}
	p.tell(midnight+70, []usage.Batch{batch("n1", 1, 1, minute, 90, "A"), batch("n2", 1, 1, minute, 3, "B")})
	p.tell(midnight+7200, nil)
	hour := midnight.Hour()
	diff(t, map[DeviceEntry]DeviceSeconds{{"", "A", hour}: {SeenUnleased: 60, Leak: 60}, {"", "B", hour}: {SeenUnleased: 60}}, p.devices)
	p.tell(midnight+7201, nil, lease("L", midnight+20, share("A", 500)), stop("L", midnight+50, fact.ByProvider))
	diff(t, map[DeviceEntry]DeviceSeconds{{"n1", "A", hour}: {SeenLeased: 30, SeenUnleased: 30, Leak: 30}, {"", "B", hour}: {SeenUnleased: 60}}, p.devices)
	diff(t, Amounts{15, 15, 0, 0}, p.coverage())
}

// TestFirstBlockTakesOldSamples: a log may begin with hours of samples in its first block.
func TestFirstBlockTakesOldSamples(t *testing.T) {
	x := newTables()
	old := batch("n1", 1, 1, span.Span{From: midnight - 7200, To: midnight - 7190}, 90, "A")
	x.play(NewState(), Block{Seq: 9, At: midnight, Usage: messages(1, old)})
	diff(t, map[DeviceEntry]DeviceSeconds{{"", "A", old.Minute.Hour()}: {SeenUnleased: 10, Leak: 10}}, x.devices)
}

// TestDeviceThatMoves: the node of the hour says whether the device was silent.
func TestDeviceThatMoves(t *testing.T) {
	first, second := midnight-5400, midnight+1800 // full hours
	moved := share("A", 1000)
	moved.Node = "n2"
	p := newPlayer(daily(""), lease("L", first, share("A", 1000)), stop("L", first+60, fact.ByProvider), lease("K", second, moved), stop("K", second+60, fact.ByProvider))
	var list []usage.Batch
	for i, at := range []span.Second{first, second} { // n1 is alive all the time and does not see the device
		list = append(list, batch("n1", 1, uint64(i+1), span.Span{From: at, To: at + 60}, 0))
	}
	list = append(list, batch("n2", 1, 1, span.Span{From: second, To: second + 40}, 9, "A"), batch("n2", 1, 2, span.Span{From: second + 40, To: second + 60}, 9))
	p.tell(second+7200, list)
	diff(t, map[DeviceEntry]DeviceSeconds{
		{"n1", "A", first.Hour()}: {Ghost: 60}, {"n2", "A", second.Hour()}: {SeenLeased: 40, Ghost: 20},
	}, p.devices)
}

func TestConflictsAndQuarantineAreListed(t *testing.T) {
	p := newPlayer(daily(""), lease("L", midnight, share("A", 1000)))
	minute := span.Span{From: midnight, To: midnight + 60}
	out := p.tell(midnight+100, []usage.Batch{
		batch("n1", 1, 1, minute, 90, "A"), batch("n1", 1, 2, minute, 90, "A"), batch("n1", 1, 3, minute, 10, "A"),
		batch("n1", 1, 4, span.Span{From: midnight + 160, To: midnight + 162}, 10, "A"),
	})
	late := p.tell(midnight+200, []usage.Batch{batch("n1", 1, 5, minute, 20, "A")}, daily(", grace: 0"), lease("L", midnight, share("A", 1000)))
	var got []string
	for _, r := range append(slices.Clone(out.Refusals), late.Refusals...) {
		got = append(got, r.Reason+" "+r.ID)
	}
	diff(t, []string{
		"ahead_of_tick usage/1004", "sequence_conflict usage/n1/1/3/A", "second_signature contract.signed.v1/3",
		"second_start lease.started.v1/4", "sequence_conflict usage/n1/1/5/A",
	}, got)
	other := Block{Seq: 9000, At: midnight + 300, Facts: numbered(1, daily(", grace: 0"))}
	other.Facts[0].Seq = 77
	if r := p.play(p.state, other).Refusals; len(r) != 1 || r[0].Reason != ConflictingFact || r[0].ID != "contract.signed.v1/1#77" {
		t.Errorf("another statement under a used key: %v", r)
	}
	if r := p.play(p.state, Block{Seq: 9001, At: midnight + 300, Facts: numbered(1, daily(""))}).Refusals; r != nil {
		t.Errorf("a repeat is refused: %v", r)
	}
}

func TestRefusalGoesWithItsCause(t *testing.T) {
	p := newPlayer(daily(""), stop("L", midnight+100, fact.ByCustomer))
	diff(t, map[string]int64{"unknown_lease": 1}, p.refusals)
	p.tell(midnight+200, nil, lease("L", midnight))
	diff(t, map[string]int64{"unknown_lease": 0}, p.refusals)
}

// TestDeclarationWaitsForItsDevice: it is listed until a lease names the device, by a start or a resize, whatever came between.
func TestDeclarationWaitsForItsDevice(t *testing.T) {
	declared := func(device string, at span.Second, milli int64) fact.Body {
		return &fact.DeviceDeclared{Device: device, At: at, SaleableMilli: milli}
	}
	p := newPlayer(daily(""), declared("A", midnight, 2000), declared("A", midnight+60, 500), declared("B", midnight, 900))
	diff(t, map[string]int64{"unknown_device": 3}, p.refusals)
	p.tell(midnight+200, nil, lease("L", midnight, share("A", 1000)))
	diff(t, map[string]int64{"unknown_device": 1}, p.refusals)
	p.tell(midnight+300, nil, &fact.LeaseResized{Lease: "L", At: midnight + 10, Devices: []fact.Share{share("B", 1000)}})
	diff(t, map[string]int64{"unknown_device": 0}, p.refusals)
	p.tell(midnight+400, nil, declared("A", midnight+120, 1000))
	diff(t, map[string]int64{"unknown_device": 0}, p.refusals)
}

// TestFailedAssertionStaysWithItsUnit: a contract that breaks an assertion of ours stops neither the others nor the cut.
func TestFailedAssertionStaysWithItsUnit(t *testing.T) {
	broken := lease("M", midnight, share("B", 1000))
	broken.Contract = "c2"
	p := newPlayer(daily(""), signed("c2", document("c2", "daily", "", "1.00")), lease("L", midnight, share("A", 1000)), broken)
	v, _ := p.state.Contracts().Version(2)
	v.Contract.Zone = calendar.Zone{}
	out := p.cut(midnight + 7200)
	diff(t, map[string]int64{"leased priced": 7200}, p.told())
	if p.refusals[AssertionFailed] == 0 {
		t.Error("the broken unit is not listed")
	}
	if len(out.Cuts) != 1 || len(out.Cuts[0].Totals) != 1 || out.Cuts[0].Totals[0].Contract != "c1" {
		t.Errorf("the cut holds %v, want the totals of c1 alone", out.Cuts)
	}
}

// TestCutStatesWhatMoved: the answer to a cut does not grow with the periods that are over; a late stop states its period anew.
func TestCutStatesWhatMoved(t *testing.T) {
	p := newPlayer(daily(""), lease("L", midnight, share("A", 1000)))
	for day := span.Second(1); day <= 40; day++ {
		out := p.cut(midnight + day*86400)
		if totals := out.Cuts[0].Totals; len(totals) != 1 || totals[0].PeriodStart != midnight+(day-1)*86400 {
			t.Fatalf("the cut after day %d states %v, want that day alone", day, totals)
		}
	}
	p.tell(midnight+40*86400, nil, stop("L", midnight+39*86400-1, fact.ByCustomer))
	diff(t, []fact.Total{
		{Contract: "c1", Customer: "acme", PeriodStart: midnight + 38*86400, LeasedMilliGPUSeconds: 86399 * 1000},
		{Contract: "c1", Customer: "acme", PeriodStart: midnight + 39*86400},
	}, p.cut(midnight + 40*86400 + 1).Cuts[0].Totals)
}
