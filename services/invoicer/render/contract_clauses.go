package render

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
)

// week draws which window holds when, for each pricing mode that has one, and says what each does. A week without holidays.
func (s *sheet) week() {
	schedule := s.contract.Schedule
	if schedule == nil {
		return
	}
	s.heading(s.say("Schedule"))
	days := []string{s.say("Mon"), s.say("Tue"), s.say("Wed"), s.say("Thu"), s.say("Fri"), s.say("Sat"), s.say("Sun")}
	left := columns(days[0]) + len(gap)
	minutes := 30 // that a letter stands for
	if room(s.Width) < left+24*2+len("24") {
		minutes = 60
	}
	hours := strings.Repeat(" ", left)
	for h := 0; h <= 24; h += 3 {
		hours += pad(strconv.Itoa(h), 3*60/minutes, Left)
	}
	for _, mode := range contract.WindowModes() {
		if !slices.ContainsFunc(schedule.Windows, func(w contract.Window) bool { return slices.Contains(w.Modes, mode) }) {
			continue
		}
		s.line(plain, s.phrase(mode))
		s.line(dim, hours)
		for day := 1; day <= 7; day++ {
			s.line(plain, days[day-1]+gap+dayOf(schedule, mode, day, minutes))
		}
		s.line(plain, "")
	}
	t := Table{Width: s.Width, Colour: s.Colour, Columns: []Column{
		{Head: ""},
		{Head: s.say("Window"), Fit: Wrap},
		{Head: s.say("Price"), Fit: Wrap},
		{Head: s.say("When, local time"), Fit: Wrap},
		{Head: s.say("Holidays"), Fit: Wrap},
	}}
	for i, w := range schedule.Windows {
		t.Row(letter(i), w.Name, s.text("schedule", w.Name, "price"), s.windows(s.said[said{"schedule", w.Name, "windows"}].Text), s.text("schedule", w.Name, "holidays"))
	}
	s.WriteString(t.String())
}

// letter names a window in the week.
func letter(i int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return letters[i%len(letters) : i%len(letters)+1]
}

// dayOf is a day in steps of some minutes: the letter of the window that holds when each begins, a dot for none.
func dayOf(s *contract.Schedule, mode string, day, step int) string {
	var out strings.Builder
	for minute := int64(0); minute < 24*60; minute += int64(step) {
		held := slices.IndexFunc(s.Windows, func(w contract.Window) bool {
			return slices.Contains(w.Modes, mode) && slices.ContainsFunc(w.Ranges, func(r contract.LocalRange) bool { return r.Holds(day, minute) })
		})
		if held < 0 {
			out.WriteByte('.')
		} else {
			out.WriteString(letter(held))
		}
	}
	return out.String()
}

func (s *sheet) relief() {
	i := s.contract.Idle
	if i == nil {
		return
	}
	s.heading(s.say("Idle relief"))
	get := func(field string) string { return s.text("idle_relief", "", field) }
	s.pairs(&s.page, []note{
		{s.say("Idle is"), s.say("below %s busy", get("below"))},
		{s.say("Relief"), s.say("%s off, once a run has lasted %s", get("off"), get("after"))},
		{s.say("Gap that ends no run"), get("bridge")},
	})
}

func (s *sheet) meters() {
	c := s.contract
	if len(c.Meters) > 0 {
		s.heading(s.say("Meters"))
		t := Table{Width: s.Width, Colour: s.Colour, Indent: 4, Columns: []Column{
			{Head: s.say("Meter"), Fit: Wrap},
			{Head: s.say("Price"), Align: Right, Fit: Wrap},
			{Head: s.say("Free of a period"), Align: Right, Fit: Wrap},
			{Head: s.say("Model")},
			{Head: s.say("Readings"), Fit: Wrap},
		}}
		for _, m := range c.Meters {
			get := func(field string) string { return s.text("meters", m.Name, field) }
			readings := get("aggregate")
			if value := get("value"); value != "" {
				readings += s.say(", ") + value
			}
			model := get("model")
			if m.RoundDown {
				model += s.say(", ") + get("round")
			}
			t.Row(m.Name, get("price"), get("free"), model, readings)
			if m.Tiers != nil {
				unit := m.Unit
				if unit == "" {
					unit = s.say("count")
				}
				s.tiers(&t, "meters", m.Name, "tiers", clean(unit))
			}
			if m.Each != nil {
				t.note(s.say("each"), s.each(get))
			}
		}
		s.WriteString(t.String())
	}
	if len(c.Bundles) > 0 {
		s.heading(s.say("Bundles"))
		for _, b := range c.Bundles {
			of := b.With + " " + b.On
			s.paragraph(plain, s.say("%s of %s: %s off %s", s.text("bundles", of, "at_least"), clean(b.With), money.PercentText(b.Off), clean(b.On)), room(s.Width))
		}
	}
}

// each says what a reading costs that is priced by itself.
func (s *sheet) each(get func(field string) string) string {
	text := s.say("every reading by itself")
	for _, x := range []struct{ field, words string }{{"flat", ", plus %s"}, {"min", ", at least %s"}, {"max", ", at most %s"}} {
		if amount := get(x.field); amount != "" {
			text += s.say(x.words, amount)
		}
	}
	return text
}

func (s *sheet) charges() {
	c := s.contract
	if len(c.Addons) > 0 {
		s.heading(s.say("Add-ons"))
		t := Table{Width: s.Width, Colour: s.Colour, Columns: []Column{
			{Head: s.say("Add-on"), Fit: Wrap}, {Head: s.say("Price"), Align: Right, Fit: Wrap}, {Head: s.say("Of a part of its unit"), Fit: Wrap},
		}}
		for _, a := range c.Addons {
			part := ""
			if a.Fee != nil {
				switch {
				case a.Fee.Unit == contract.Once:
					part = s.say("due once")
				case a.Prorate:
					part = s.say("its local days") + s.mark("addons", a.Name, "prorate")
				default:
					part = s.say("the whole fee") + s.mark("addons", a.Name, "prorate")
				}
				if a.Advance {
					part += s.say(", paid when its period begins")
				}
			}
			t.Row(a.Name, s.text("addons", a.Name, "price"), part)
		}
		s.WriteString(t.String())
	}
	if c.Spend != nil {
		s.heading(s.say("Commitment"))
		s.paragraph(plain, s.say("At least %s is spent; what is missing is billed.", s.text("commitment", "", "spend")), room(s.Width))
	}
	s.limits()
	s.termination()
	s.arrears()
}

// termination says what is due when a side ends the contract before its term is over.
func (s *sheet) termination() {
	t := s.contract.Termination
	if t == nil {
		return
	}
	s.heading(s.say("Early termination"))
	rest := s.say("is given back by local days")
	if t.Refund == contract.RefundNone {
		rest = s.say("is due all the same")
	}
	list := []note{{s.say("Rest of the period"), rest}}
	if t.Clawback {
		list = append(list, note{s.say("Customer leaves"), s.say("reservations pay what their time would have cost on demand, if that is more")})
	}
	if t.Fee != nil {
		list = append(list, note{s.say("Customer pays"), s.say("%s of the reservation fees and the commitment still to come", money.PercentText(t.Fee))})
	}
	s.pairs(&s.page, list)
}

// limits says what follows when so much is spent.
func (s *sheet) limits() {
	l := s.contract.Limit
	if l == nil {
		return
	}
	s.heading(s.say("Spend limit"))
	get := func(field string) string { return s.text("limits", "", field) }
	list := []note{{s.say("At most"), get("spend")}, {s.say("Told at"), get("alert_at")}}
	switch l.Action {
	case contract.LimitAlert:
		list = append(list, note{s.say("Then"), s.say("all goes on and is billed")})
	case contract.LimitStop:
		list = append(list, note{s.say("Then"), s.say("the provider stops what runs; what was used until then is billed")},
			note{s.say("Accepted beyond"), get("overshoot")})
	case contract.LimitCap:
		list = append(list, note{s.say("Then"), s.say("what is used beyond is free")})
	}
	s.pairs(&s.page, list)
}

// arrears lists what happens to a customer who is behind with paying.
func (s *sheet) arrears() {
	if len(s.contract.Arrears) == 0 {
		return
	}
	s.heading(s.say("Arrears"))
	t := Table{Width: s.Width, Colour: s.Colour, Columns: []Column{{Head: s.say("After")}, {Head: s.say("Step")}, {Head: s.say("Billed from then on"), Fit: Wrap}}}
	billed := map[contract.ArrearsAction]string{
		contract.ArrearsWarn:    s.say("everything"),
		contract.ArrearsStop:    s.say("no GPU time; what is kept, as it is metered"),
		contract.ArrearsFreeze:  s.say("no GPU time, nothing metered"),
		contract.ArrearsRelease: s.say("no GPU time, nothing metered"),
	}
	for _, step := range s.contract.Arrears {
		after := contract.DurationText(step.AfterSeconds)
		t.Row(s.provision(after), s.text("arrears", after, "do"), billed[step.Do])
	}
	s.WriteString(t.String())
	s.paragraph(plain, s.say("Nothing here happens by itself: the provider states what was done, and that is billed. Fees go on until the contract is amended."), room(s.Width))
}

// states lists what bills in which state of a lease.
func (s *sheet) states() {
	states := s.contract.States
	if states == nil {
		return
	}
	s.heading(s.say("Lease states"))
	t := Table{Width: s.Width, Colour: s.Colour, Columns: []Column{{Head: s.say("State")}, {Head: s.say("Bills"), Fit: Wrap}}}
	for _, state := range contract.LeaseStates() {
		of := string(state)
		parts := []string{"GPU " + s.text("states", of, "gpu")}
		for _, m := range s.contract.Meters {
			if states.Meters[m.Name] != nil {
				parts = append(parts, glued(clean(m.Name)+" "+s.text("states", of, m.Name)))
			}
		}
		t.Row(s.word(of), strings.Join(parts, s.say(", ")))
	}
	s.WriteString(t.String())
}
