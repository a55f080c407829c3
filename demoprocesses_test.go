package gpuhour_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// inside is a call of the program with nothing set for it: both engines run inside it.
func (s *site) inside(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.program, args...)
	cmd.Dir = s.dir
	return cmd
}

// demo begins to play the demo's world: five months of leases, and the fewest samples that hold all that it plants.
func (s *site) demo(t *testing.T, dir string, args ...string) *background {
	t.Helper()
	return s.start(t, dir, s.inside(append([]string{"demo", "--hours", "2", "--data", dir}, args...)...))
}

// findings waits for a demo's end and is its report, without what it says of times and places.
func (p *background) findings(t *testing.T) string {
	t.Helper()
	if err := p.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, p.text())
	}
	_, text, _ := strings.Cut(p.text(), "GPU-hours billed")
	text, _, ok := strings.Cut(text, "Try next")
	if !ok {
		t.Fatalf("%s printed\n%s", p.name, p.text())
	}
	return text
}

// outcome is all that a played demo leaves behind, but for positions in the log: those differ where services work when they
// come to it.
type outcome struct {
	Findings, Listed          string
	Alerts, Closes, Documents []string // as the log has them
	Bills                     bills
}

func (o *outcome) read(t *testing.T, ctx context.Context, e *gpuhour.Engine) {
	t.Helper()
	for after := uint64(0); ; {
		messages, err := e.Bus().Read(ctx, bus.Facts, after, bus.MaxBatch)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			f, err := codec.DecodeFact(m)
			if err != nil {
				t.Fatal(err)
			}
			o.take(t, f)
			after = m.Seq
		}
	}
	var periods bills
	for _, text := range o.Documents {
		d, err := bill.ParseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		periods.Totals = append(periods.Totals, meter.Total{Key: meter.ChargeKey{Contract: d.Contract, Customer: d.Customer, PeriodStart: instant(d.Period.From)}})
	}
	o.Bills = harvest(t, e, periods)
}

func (o *outcome) take(t *testing.T, f fact.Fact) {
	t.Helper()
	text, err := json.Marshal(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	switch b := f.Body.(type) {
	case *fact.AlertRaised, *fact.AlertResolved:
		o.Alerts = append(o.Alerts, f.Key+" "+string(text))
	case *fact.CutRequested, *fact.PeriodClosed:
		o.Closes = append(o.Closes, f.Key+" "+string(text))
	case *fact.InvoiceIssued:
		o.Documents = append(o.Documents, string(b.Document))
	}
}

// check holds the demo to what it is meant to show, so that two equal outcomes are not two empty ones.
func (o *outcome) check(t *testing.T) {
	t.Helper()
	if len(o.Documents) != 20 || len(o.Closes) != 25 || len(o.Alerts) < 10 || strings.Count(o.Listed, `"invoice":"GH-`) != 20 {
		t.Errorf("%d documents, %d cuts and closings, %d alerts; listed:\n%s", len(o.Documents), len(o.Closes), len(o.Alerts), o.Listed)
	}
	var sum meter.DeviceSeconds
	for _, d := range o.Bills.Devices {
		sum = sum.Plus(d)
	}
	if sum.Ghost < 1200 || sum.Leak < 3000 || sum.SeenLeased == 0 || sum.SeenUnleased == 0 || len(o.Bills.Totals) < 6000 {
		t.Errorf("%d totals, device seconds %+v", len(o.Bills.Totals), sum)
	}
	for _, part := range []string{"51470.674158333", "ghosts     leased", "leaks      busy", "refusals   none", "a silent node"} {
		if !strings.Contains(o.Findings, part) {
			t.Errorf("%q is not in the findings:\n%s", part, o.Findings)
		}
	}
}

// TestDemoOfProcesses: the demo's world gives the same when everything runs inside the demo and when rater, invoicer and alerter
// are processes that reach NATS over TCP and ClickHouse over HTTP, and the demo samples and tells the time: the same
// documents, ledger, device seconds, alerts and closings, to the last byte.
func TestDemoOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program, starts a handful of processes and plays the demo twice; left out of -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := newSite(t, ctx)
	began := time.Now()
	s.engine(t, "clickhouse", s.clickHouse)
	s.engine(t, "nats", s.nats)
	var services []*background
	for _, args := range [][]string{{gpuhour.ServiceRater, "--clock=false"}, {gpuhour.ServiceInvoicer}, {gpuhour.ServiceAlerter}} {
		services = append(services, s.service(t, args...))
	}
	cfg := s.config()
	apart := s.demo(t, "apart", "--services-elsewhere", "--nats-url", cfg.NATS.URL, "--clickhouse-url", cfg.ClickHouse.URL)
	whole := s.demo(t, "whole")

	var got, want outcome
	got.Findings, want.Findings = apart.findings(t), whole.findings(t)
	t.Logf("both were played after %v", time.Since(began).Round(time.Millisecond))
	got.Listed = s.call(t, "invoice", "list", "--format", "json")
	list, err := s.inside("invoice", "list", "--format", "json", "--data", "whole").Output()
	if err != nil {
		t.Fatalf("invoice list: %v", err)
	}
	want.Listed = string(list)
	e := open(t, cfg, quiet())
	got.read(t, ctx, e)
	closed(t, e)
	e = open(t, embeddedConfig(t, filepath.Join(s.dir, "whole")), quiet())
	want.read(t, ctx, e)
	closed(t, e)
	want.check(t)
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("separate processes against one (-want +got):\n%s", d)
	}
	for _, n := range []int{1, len(want.Documents)} {
		if shown := s.call(t, "invoice", "show", bill.InvoiceName("GH", uint64(n)), "--format", "json"); shown != want.Documents[n-1]+"\n" {
			t.Errorf("invoice show %d prints\n%s\nwant\n%s", n, shown, want.Documents[n-1])
		}
	}
	for _, p := range services {
		p.end(t)
	}
	t.Logf("%v in all", time.Since(began).Round(time.Millisecond))
}
