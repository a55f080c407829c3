package gpuhour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// natsPassword is what the test's server asks for.
const natsPassword = "Secret4nats"

// natsChild is the log's server under deploy/nats/nats.conf, but on a loopback port and in a directory of the test.
func natsChild(_ context.Context, arg string) error {
	port, dir, _ := strings.Cut(arg, " ")
	o, err := server.ProcessConfigFile(filepath.Join("deploy", "nats", "nats.conf"))
	if err != nil {
		return err
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	o.Host, o.HTTPPort, o.StoreDir, o.NoSigs = "127.0.0.1", 0, dir, true
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10*time.Second) || !s.JetStreamConfig().SyncAlways {
		return errors.New("the server is not ready, or does not sync")
	}
	fmt.Println(s.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin) // until the test ends
	s.Shutdown()
	return err
}

// clickHouseChild is the ClickHouse engine behind its HTTP interface on a loopback port.
func clickHouseChild(ctx context.Context, arg string) error {
	port, dir, _ := strings.Cut(arg, " ")
	path, err := embedded.Library(ctx, nil)
	if err == nil {
		err = embedded.Load(path)
	}
	if err != nil {
		return err
	}
	e, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		stop()
	}()
	return e.Serve(ctx, l)
}

// site is everything that docker-compose.yml starts, as processes of this machine.
type site struct {
	ctx              context.Context
	dir, program     string
	nats, clickHouse string // ports
	health           string // the rater's address
}

// newSite builds the program and chooses the addresses; nothing runs yet.
func newSite(t *testing.T, ctx context.Context) *site {
	t.Helper()
	embeddedConfig(t, t.TempDir()) // is there an engine at all?
	s := &site{ctx: ctx, dir: t.TempDir(), nats: freePort(t), clickHouse: freePort(t), health: "127.0.0.1:" + freePort(t)}
	s.program = filepath.Join(s.dir, "gpuhour")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.program, "./cmd/gpuhour").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// config is where the site's engines are.
func (s *site) config() gpuhour.Config {
	cfg := gpuhour.DefaultConfig()
	cfg.NATS.URL = "nats://gpuhour:" + natsPassword + "@127.0.0.1:" + s.nats
	cfg.ClickHouse.URL = "http://gpuhour:Secret4tables@127.0.0.1:" + s.clickHouse
	return cfg
}

// command is a call of the program with its engines in the environment, as a container has them.
func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.program, args...)
	cfg := s.config()
	cmd.Dir = s.dir
	cmd.Env = []string{"GPUHOUR_NATS_URL=" + cfg.NATS.URL, "GPUHOUR_CLICKHOUSE_URL=" + cfg.ClickHouse.URL, "GPUHOUR_LOG_FORMAT=json"}
	return cmd
}

// call runs a command to its end.
func (s *site) call(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("gpuhour %v: %v\n%s%s", args, err, out.String(), said.String())
	}
	return out.String()
}

// background is a process that runs until it is killed or told to end, at the latest when the test ends.
type background struct {
	*exec.Cmd
	name string
	mu   sync.Mutex
	said bytes.Buffer // on both outputs
}

// Write keeps what the process says.
func (p *background) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(text)
}

func (p *background) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (s *site) start(t *testing.T, name string, cmd *exec.Cmd) *background {
	t.Helper()
	p := &background{Cmd: cmd, name: name}
	p.Stdout, p.Stderr = p, p
	p.SysProcAttr = endsWithParent()
	if _, err := p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.text())
		}
	})
	return p
}

func (s *site) service(t *testing.T, args ...string) *background {
	t.Helper()
	return s.start(t, args[0], s.command(args...))
}

// rater is the service whose health is asked for.
func (s *site) rater(t *testing.T) *background {
	t.Helper()
	return s.service(t, gpuhour.ServiceRater, "--http-listen", s.health)
}

func (s *site) healthy() bool { return s.command("health", "--http-listen", s.health).Run() == nil }

// engine starts one of the two engines and returns when it answers.
func (s *site) engine(t *testing.T, name, port string) *background {
	t.Helper()
	cmd := exec.CommandContext(s.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "NATS_PASSWORD="+natsPassword, child+"="+name+" "+port+" "+filepath.Join(s.dir, name))
	p := s.start(t, name, cmd)
	p.await(t, s.ctx, "127.0.0.1:"+port)
	return p
}

// await waits until the process has said something.
func (p *background) await(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	eventually(t, ctx, p.name+" says "+text, func() bool { return strings.Contains(p.text(), text) })
}

// eventually looks again and again, for what other processes do.
func eventually(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within the test's time", what)
		}
	}
}

// kill ends a process as a power switch does.
func (p *background) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil {
		t.Fatalf("%s ended by itself before it was killed:\n%s", p.name, p.text())
	}
}

// end asks a service to stop, as docker does.
func (p *background) end(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("%s ended with %v:\n%s", p.name, err, p.text())
	}
}

// watch reads the log's facts from where it stands.
type watch struct {
	bus.Bus
	at     uint64
	issued []string // documents, in order
}

// until reads on until a fact is the one that is waited for.
func (w *watch) until(t *testing.T, ctx context.Context, what string, found func(fact.Body) bool) {
	t.Helper()
	for {
		messages, err := w.Read(ctx, bus.Facts, w.at, 1000)
		if err == nil && len(messages) == 0 {
			err = w.Wait(ctx, bus.Facts, w.at)
		}
		if err != nil {
			t.Fatalf("wait for %s: %v; %d invoices were issued", what, err, len(w.issued))
		}
		for _, m := range messages {
			f, err := codec.DecodeFact(m)
			if err != nil {
				t.Fatal(err)
			}
			w.at = m.Seq
			if issued, ok := f.Body.(*fact.InvoiceIssued); ok {
				w.issued = append(w.issued, string(issued.Document))
			}
			if found(f.Body) {
				return
			}
		}
	}
}

func isCut(b fact.Body) bool    { _, ok := b.(*fact.CutRequested); return ok }
func isIssued(b fact.Body) bool { _, ok := b.(*fact.InvoiceIssued); return ok }

// past is a world that is over: everything was due long ago, so that real clocks close it at once. Its second part becomes
// known after that, with a contract that falls due at the instant again.
func past(first, again span.Second) *world {
	start := time.Unix(int64(first), 0).UTC()
	month := func(n int) span.Second {
		return span.Second(time.Date(start.Year(), start.Month()-4+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Unix())
	}
	day := func(n int) span.Second { return month(0) + span.Second(n)*24*span.SecondsPerHour }
	text := func(id, customer string, from, to span.Second, billing string) string {
		return fmt.Sprintf("contract: %s\ncustomer: %s\ncurrency: CNY\ntimezone: UTC\nterm: {from: %q, to: %q}\nbilling: {%s}\nrates:\n%s",
			id, customer, from, to, billing,
			"  - {sku: h100, on_demand: 35.00/gpu-hour}\n  - {sku: a100, on_demand: 0.005/gpu-second}\n")
	}
	w := &world{until: again + 60}
	w.know(first, "c/acme", signed("acme-1", "acme", text("acme-1", "acme", month(0), month(3), "cycle: monthly")))
	w.know(first, "c/nimbus", signed("nimbus-1", "nimbus", text("nimbus-1", "nimbus", day(10), day(10)+12*span.SecondsPerHour, "cycle: hourly, grace: 60s")))
	w.know(first, "l/train", lease("train", "acme", "h100", day(9), share("n-a", 0, 1000), share("n-a", 1, 500)))
	w.know(first, "l/train/stop", &fact.LeaseStopped{Lease: "train", At: day(40) + 5, By: fact.ByCustomer})
	w.know(first, "l/half", lease("half", "acme", "h100", day(20), share("n-b", 0, 500)))
	w.know(first, "l/hours", lease("hours", "nimbus", "a100", day(10)+605, share("n-c", 0, 1000)))
	w.know(first, "l/hours/stop", &fact.LeaseStopped{Lease: "hours", At: day(10) + 40_007, By: fact.ByFault})

	w.know(again-1, "l/half/stop", &fact.LeaseStopped{Lease: "half", At: day(25) + 77, By: fact.ByProvider}) // corrects three months
	grace := fmt.Sprintf("cycle: monthly, grace: %ds", again-month(2))
	w.know(again-1, "c/orbit", signed("orbit-1", "orbit", text("orbit-1", "orbit", month(1), month(2), grace)))
	w.know(again-1, "l/orbit", lease("orbit", "orbit", "h100", month(1)+3, share("n-d", 0, 1000)))
	w.know(again-1, "l/orbit/stop", &fact.LeaseStopped{Lease: "orbit", At: month(1) + 4003, By: fact.ByCustomer})

	w.finish()
	for known, n := range map[span.Second]sampled{
		first:     {"n-a", recording("n-a", span.Span{From: day(10), To: day(10) + 600}), 0},
		again - 1: {"n-b", recording("n-b", span.Span{From: day(21), To: day(21) + 600}), 0},
	} {
		for _, m := range n.record() {
			w.batches = append(w.batches, replay.Measurement{Known: known, Batch: m.Batch})
		}
	}
	return w
}

// state publishes a part of the world: its samples by this process, its facts by `gpuhour publish`.
func (s *site) state(t *testing.T, b bus.Bus, w *world, from, to span.Second) {
	t.Helper()
	if err := w.direct(b)(s.ctx, from, to); err != nil {
		t.Fatal(err)
	}
	var lines []byte
	for _, f := range w.facts(from, to) {
		line, err := fact.EncodeLine(f)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	name := filepath.Join(s.dir, "facts.jsonl")
	if err := os.WriteFile(name, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	s.call(t, "publish", name)
}

// TestProcesses runs what docker-compose.yml describes: a NATS server under its settings file, ClickHouse over HTTP, and each
// service as its own process, all at the wall clock. Services start before the engines, there are two raters, and all but
// the alerter is killed once in the middle. The invoices are those of core/replay, byte for byte.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts a dozen processes; left out of -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := newSite(t, ctx)
	began := time.Now()
	invoicer, alerter := s.service(t, gpuhour.ServiceInvoicer), s.service(t, gpuhour.ServiceAlerter)
	invoicer.await(t, ctx, "waiting for NATS")
	log := s.engine(t, "nats", s.nats)
	invoicer.await(t, ctx, "waiting for ClickHouse")
	clickHouse := s.engine(t, "clickhouse", s.clickHouse)
	invoicer.await(t, ctx, `"serving"`) // two processes migrated the tables at once
	alerter.await(t, ctx, `"serving"`)

	b := s.dial(t)
	first := span.Second(time.Now().Unix())
	s.state(t, b, past(first, first+span.SecondsPerHour), 0, first)
	rater := s.rater(t)
	facts := &watch{Bus: b}
	facts.until(t, ctx, "a cut", isCut)
	rater.kill(t)
	rater = s.rater(t)
	twin := s.service(t, gpuhour.ServiceRater) // a mistake that must cost time alone
	facts.until(t, ctx, "an invoice", isIssued)
	invoicer.kill(t)
	invoicer = s.service(t, gpuhour.ServiceInvoicer)
	facts.until(t, ctx, "15 invoices", func(fact.Body) bool { return len(facts.issued) == 15 })
	eventually(t, ctx, "the rater is healthy", s.healthy)

	log.kill(t) // the engines too
	clickHouse.kill(t)
	s.engine(t, "clickhouse", s.clickHouse)
	s.engine(t, "nats", s.nats)
	again := span.Second(time.Now().Unix()) + 2
	w := past(first, again)
	eventually(t, ctx, "the test is connected again", func() bool { _, err := b.LastSeq(ctx, bus.Facts); return err == nil })
	s.state(t, b, w, first, again)
	facts.until(t, ctx, "the second cut", isCut)
	rater.kill(t)
	invoicer.kill(t)
	rater, invoicer = s.rater(t), s.service(t, gpuhour.ServiceInvoicer)
	want := w.replayed(t)
	facts.until(t, ctx, "all invoices", func(fact.Body) bool { return len(facts.issued) == len(want.Documents) })
	s.compare(t, w, want)
	t.Logf("%d invoices in %v", len(want.Documents), time.Since(began).Round(time.Millisecond))

	s.refusesDeletion(t)
	for _, p := range []*background{rater, twin, invoicer, alerter} {
		p.end(t)
	}
	if s.healthy() {
		t.Error("a service that ended is healthy")
	}
}

// dial is the test's own connection to the log.
func (s *site) dial(t *testing.T) *natsbus.Bus {
	t.Helper()
	b, err := natsbus.Connect(s.ctx, s.config().NATS.URL, natsbus.ConnectOptions{NATS: []nats.Option{nats.ReconnectWait(50 * time.Millisecond)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// compare holds documents, ledger and devices against core/replay, and what the commands print against the documents.
func (s *site) compare(t *testing.T, w *world, want bills) {
	t.Helper()
	if n := len(want.Documents); n != 19 {
		t.Errorf("core/replay gives %d invoices; the world is made for 3 + 12, one of the contract that came later and 3 corrections", n)
	}
	e := open(t, s.config(), quiet())
	defer closed(t, e)
	eventually(t, s.ctx, "all invoices are in the tables", func() bool {
		rows, err := e.Invoices(s.ctx)
		return err == nil && len(rows) == len(want.Documents)
	})
	got := harvest(t, e, want)
	got.Blocked = want.Blocked // a service's own memory
	equal(t, "separate processes against core/replay", want, got)
	seen, err := e.Store().SeenSeconds(s.ctx, span.Span{From: 0, To: span.Open}, all)
	if err != nil || seen == 0 {
		t.Errorf("%d seconds of devices are stored, %v", seen, err)
	}
	if list := s.call(t, "invoice", "list", "--format", "json"); strings.Count(list, `"invoice":"GH-`) != len(want.Documents) {
		t.Errorf("invoice list prints\n%s", list)
	}
	for _, n := range []int{1, len(want.Documents)} {
		if got := s.call(t, "invoice", "show", bill.InvoiceName("GH", uint64(n)), "--format", "json"); got != want.Documents[n-1]+"\n" {
			t.Errorf("invoice show %d prints\n%s\nwant\n%s", n, got, want.Documents[n-1])
		}
	}
}

// refusesDeletion tries what deploy/nats/nats.conf forbids.
func (s *site) refusesDeletion(t *testing.T) {
	t.Helper()
	nc, err := nats.Connect(s.config().NATS.URL, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the server's refusal
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.DELETE."+bus.Facts, nil); err == nil {
		t.Error("the facts could be deleted")
	}
	wrong := strings.Replace(s.config().NATS.URL, natsPassword, "Wrong4nats", 1)
	if _, err := natsbus.Connect(s.ctx, wrong, natsbus.ConnectOptions{}); err == nil || strings.Contains(err.Error(), "Wrong4nats") {
		t.Errorf("with a wrong password: %v; want an error that does not show it", err)
	}
}
