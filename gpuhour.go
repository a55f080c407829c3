package gpuhour

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuhour/gpuhour/core/alert"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/config"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/clickhouse"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/alerter"
	"github.com/gpuhour/gpuhour/services/invoicer"
	"github.com/gpuhour/gpuhour/services/rater"
)

// Version is this release.
const Version = "0.1.0"

// Config is everything that can be set; see docs/configuration.md.
type Config = config.Config

// DefaultConfig is what holds when nothing is set: both engines inside, data in ./gpuhour-data.
func DefaultConfig() Config { return config.Default() }

// Options are what a host hands in that no file can say.
type Options struct {
	Logger *slog.Logger // slog.Default() when nil
	// Progress is told what takes long: fetching the ClickHouse engine once. total is 0 when it is not known.
	Progress func(stage string, done, total int64)
	// Memory keeps log and tables in memory, for tests of a host: nothing survives Close.
	Memory bool
	// Wait tries engines by address again until they answer or ctx ends, and says so in the log: a service may be started
	// before them.
	Wait bool
}

// Engine is one open log with its tables.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	bus     bus.Bus
	store   store.Store
	writer  *journal.Writer
	metrics *obs.Engine
	rater   *rater.Rater
	invoice *invoicer.Invoicer
	alert   *alerter.Alerter
	blocked atomic.Pointer[[]bill.Block] // as of the invoicer's last step
	counts  atomic.Pointer[rater.Counts] // as of the rater's
	now     func() time.Time             // the machine's clock
	stores  context.Context              // ends, with the cause, when the inner log server stores nothing any more

	natsURL string           // where the inner server listens, "" without one
	engine  *embedded.Engine // the inner ClickHouse engine, nil without one

	incarnation uint64 // of the log, whose tables are open
	tables      tables // opens those of another incarnation, nil for tables in memory
	rewound     error  // services do not step
}

// tables opens a database where an engine's tables are.
type tables func(context.Context, clickhouse.Options) (*clickhouse.Store, error)

// Open opens the log and the tables for a process that owns them: inside this process where no address is set. A data
// directory has one owner at a time.
func Open(ctx context.Context, cfg Config, o Options) (*Engine, error) {
	e := newEngine(cfg, o)
	if o.Memory {
		e.bus, e.store = membus.New(time.Now), memstore.New()
		e.wire()
		return e, nil
	}
	if cfg.ClickHouse.URL == "" { // first: the engine may have to be fetched, and nothing is made when it cannot
		if _, err := embedded.Library(ctx, o.Progress); err != nil {
			return nil, err
		}
	}
	if err := e.openBus(ctx, o); err != nil {
		return nil, err
	}
	if err := e.openStore(ctx, o); err != nil {
		return nil, errors.Join(err, e.bus.Close())
	}
	if err := e.checkIncarnation(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.wire()
	return e, nil
}

// Attach opens the log and the tables of a data directory for a command that looks on: through the process that runs
// them (gpuhour serve), or, when none does, inside this process.
func Attach(ctx context.Context, cfg Config, o Options) (*Engine, error) {
	running, err := readRunFile(cfg)
	if err != nil {
		return nil, err
	}
	if running == nil || cfg.NATS.URL != "" || cfg.ClickHouse.URL != "" {
		return Open(ctx, cfg, o)
	}
	e := newEngine(cfg, o)
	if e.bus, err = natsbus.Connect(ctx, running.NATS, natsbus.ConnectOptions{ExistingStreams: true}); err != nil {
		return nil, fmt.Errorf("%w (the run file %s names it; delete the file if that process is gone)", err, runFile(cfg))
	}
	options, err := e.database(ctx)
	if err == nil {
		e.store, err = clickhouse.OpenSocket(ctx, running.Store, options)
	}
	if err != nil {
		return nil, errors.Join(err, e.bus.Close())
	}
	e.wire()
	return e, nil
}

func newEngine(cfg Config, o Options) *Engine {
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Engine{cfg: cfg, log: log, now: time.Now, stores: context.Background(), metrics: obs.NewEngine(Version), incarnation: 1}
}

func (e *Engine) wire() {
	e.blocked.Store(new([]bill.Block))
	e.counts.Store(new(rater.Counts))
	e.writer = journal.NewWriter(e.bus)
	e.rater = rater.New(e.bus, e.store)
	e.invoice = invoicer.New(e.bus, e.store, e.cfg.Invoice.Series, int64(e.cfg.Invoice.Grace/time.Second))
	e.alert = alerter.New(e.bus, e.store, alert.Default())
}

func (e *Engine) openBus(ctx context.Context, o Options) error {
	streams := natsbus.StreamOptions{Replicas: e.cfg.NATS.Replicas}
	if e.cfg.NATS.URL != "" {
		return e.reach(ctx, o, "NATS", func() error {
			b, err := natsbus.Connect(ctx, e.cfg.NATS.URL, natsbus.ConnectOptions{Streams: streams, Access: access(e.cfg)})
			e.bus = b
			return err
		})
	}
	if access(e.cfg) != (natsbus.Access{}) {
		return errors.New("nats.creds, nats.nkey and nats.tls-...: they are for a server at an address; give nats.url too")
	}
	host, port, err := splitListen(e.cfg.NATS.Listen)
	if err != nil {
		return err
	}
	b, err := natsbus.Start(ctx, natsbus.Options{Dir: e.cfg.Path("nats"), Host: host, Port: port, Streams: streams, Logger: e.log})
	if err != nil {
		return err
	}
	e.bus, e.natsURL, e.stores = b, b.URL(), b.Stores()
	return nil
}

func access(cfg Config) natsbus.Access {
	n := cfg.NATS
	return natsbus.Access{Creds: n.Creds, NKey: n.NKey, CA: n.TLSCA, Cert: n.TLSCert, Key: n.TLSKey}
}

// DialNode reaches only the log, for one node's collector, whose permissions may end at its own subject: by nats.url, or the one of
// the process that runs the data directory. No stream is made or checked, and no table is opened.
func DialNode(ctx context.Context, cfg Config, node string) (*natsbus.Bus, error) {
	address := cfg.NATS.URL
	if address == "" {
		running, err := readRunFile(cfg)
		if err != nil {
			return nil, err
		}
		if running == nil {
			return nil, fmt.Errorf("no gpuhour runs on the data directory %q; start `gpuhour serve` there, or name the log with --nats-url", cfg.Data)
		}
		address = running.NATS
	}
	return natsbus.Connect(ctx, address, natsbus.ConnectOptions{Publisher: codec.Token(node), Access: access(cfg)})
}

// DialLog reaches only the log, for a service without tables, with the streams and keys that the settings name: by nats.url, again and
// again until it answers or ctx ends, and says so. c is what else the connection needs.
func DialLog(ctx context.Context, cfg Config, o Options, c natsbus.ConnectOptions) (b *natsbus.Bus, err error) {
	o.Wait = true
	c.Streams.Replicas, c.Access = cfg.NATS.Replicas, access(cfg)
	err = newEngine(cfg, o).reach(ctx, o, "NATS", func() (err error) {
		b, err = natsbus.Connect(ctx, cfg.NATS.URL, c)
		return err
	})
	return b, err
}

// database asks the log for its incarnation and names that one's tables.
func (e *Engine) database(ctx context.Context) (clickhouse.Options, error) {
	n, _, err := journal.Incarnation(ctx, e.bus)
	e.incarnation = n
	return clickhouse.Options{Database: clickhouse.Database(e.cfg.ClickHouse.Database, n)}, err
}

func (e *Engine) openStore(ctx context.Context, o Options) error {
	options, err := e.database(ctx)
	if err != nil {
		return err
	}
	if e.cfg.ClickHouse.URL == "" {
		s, engine, err := clickhouse.OpenEmbedded(ctx, e.cfg.Path("clickhouse"), embedded.Options{}, o.Progress, options)
		if err != nil {
			return err
		}
		e.store, e.engine = s, engine
		e.tables = func(ctx context.Context, o clickhouse.Options) (*clickhouse.Store, error) {
			return clickhouse.Open(ctx, engine.ClientOptions(), o)
		}
		return nil
	}
	server, dial, err := serverAt(e.cfg.ClickHouse.URL)
	if err != nil {
		return err
	}
	e.tables = func(ctx context.Context, o clickhouse.Options) (*clickhouse.Store, error) {
		return dial(ctx, server, o)
	}
	return e.reach(ctx, o, "ClickHouse", func() error {
		s, err := e.tables(ctx, options)
		e.store = s
		return err
	})
}

// serverAt reads clickhouse.url. Its errors do not show the password.
func serverAt(address string) (clickhouse.Server, func(context.Context, clickhouse.Server, clickhouse.Options) (*clickhouse.Store, error), error) {
	u, err := url.Parse(address)
	if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
		return clickhouse.Server{}, nil, fmt.Errorf("clickhouse.url: %w", wrong.Err)
	}
	password, _ := u.User.Password()
	server := clickhouse.Server{Address: u.Host, Username: u.User.Username(), Password: password}
	switch u.Scheme {
	case "clickhouse":
		return server, clickhouse.OpenNative, nil
	case "http":
		return server, clickhouse.OpenHTTP, nil
	default:
		return clickhouse.Server{}, nil, fmt.Errorf("clickhouse.url: scheme %q; write clickhouse:// (native) or http://", u.Scheme)
	}
}

// Pauses between tries to reach an engine by address.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
)

// reach opens an engine by address, again and again when o.Wait.
func (e *Engine) reach(ctx context.Context, o Options, what string, open func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := open()
		if network := (*net.OpError)(nil); errors.As(err, &network) {
			err = fmt.Errorf("reach %s: %w", what, network) // without the statement that could not be sent
		}
		if err == nil || !o.Wait || ctx.Err() != nil {
			return err
		}
		e.log.Warn("waiting for "+what, "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Close ends both engines. Everything acknowledged is on disk.
func (e *Engine) Close() error { return errors.Join(e.store.Close(), e.bus.Close()) }

// Bus is the log, for a host that publishes usage itself.
func (e *Engine) Bus() bus.Bus { return e.bus }

// Store is the tables, for a host that reads them.
func (e *Engine) Store() store.Store { return e.store }

// State publishes facts in order. Repeating a call after an error is safe: a repeated key counts once. A new log follows
// the wall clock unless Declare said otherwise before.
func (e *Engine) State(ctx context.Context, facts ...fact.Fact) error {
	last, err := e.bus.LastSeq(ctx, bus.Facts)
	if err != nil {
		return err
	}
	if last == 0 {
		if err := e.Declare(ctx, fact.Wall); err != nil {
			return err
		}
	}
	return e.writer.State(ctx, facts)
}

// Declare says whose clock the log follows; the first call decides it for the life of the log.
func (e *Engine) Declare(ctx context.Context, mode fact.ClockMode) error {
	return e.writer.Declare(ctx, mode)
}

// Invoices lists what was issued, in order of number.
func (e *Engine) Invoices(ctx context.Context) ([]store.Invoice, error) { return e.store.Invoices(ctx) }

// Invoice finds one by its name, such as GH-000003, or by its number.
func (e *Engine) Invoice(ctx context.Context, name string) (*bill.Document, error) {
	rows, err := e.store.Invoices(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if full := bill.InvoiceName(r.Series, r.Number); strings.EqualFold(full, name) || fmt.Sprint(r.Number) == name {
			return bill.ParseDocument(r.Document)
		}
	}
	return nil, fmt.Errorf("invoice %q was not issued; `gpuhour invoice list` shows what was", name)
}

// InvoiceStanding is how far the invoices of the log are and what blocks a close, also where another process issues them.
func (e *Engine) InvoiceStanding(ctx context.Context) (invoicer.Standing, error) {
	return invoicer.Look(ctx, e.bus, e.store, e.cfg.Invoice.Series, int64(e.cfg.Invoice.Grace/time.Second))
}

// Blocked lists the periods that could not close, each with its reason and remedy. It knows what this process decided.
func (e *Engine) Blocked() []bill.Block { return *e.blocked.Load() }

// Counts are what this process's rater did.
func (e *Engine) Counts() rater.Counts { return *e.counts.Load() }

// DataDir is the directory of the log, the tables and the spool.
func (e *Engine) DataDir() string { return e.cfg.Data }
