package clickhouse

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/pressly/goose/v3"

	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
	"github.com/gpuhour/gpuhour/schemas"
)

// DefaultDatabase is used when Options name none.
const DefaultDatabase = "gpuhour"

// Database is where the tables of a log's incarnation are: the first one's under the name itself, the others' beside it.
func Database(name string, incarnation uint64) string {
	if incarnation <= 1 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, incarnation)
}

// Options of every way to open the store. Zero values take the defaults.
type Options struct {
	Database string
	// Reader leaves the tables as they are: another process owns them, and a migration under its feet, perhaps of
	// another version of this program, would stop it.
	Reader bool
}

// Server says how to reach a ClickHouse server.
type Server struct {
	Address            string // host:port
	Username, Password string
	TLS                *tls.Config // nil: no TLS
}

// Store is the store in ClickHouse. It is safe for concurrent use.
type Store struct {
	conn    driver.Conn
	after   func()     // what Close ends besides the connections
	writing sync.Mutex // held by Put, Trim and PutInvoice from their first statement to their last
	run     uint64     // whose rows and progress this process puts; see the table run
}

var _ store.Store = (*Store)(nil)

// OpenHTTP opens the store on a server by its HTTP interface (port 8123, or 8443 with TLS).
func OpenHTTP(ctx context.Context, s Server, o Options) (*Store, error) {
	return Open(ctx, s.client(clickhouse.HTTP), o)
}

// OpenNative opens the store on a server by its native protocol (port 9000, or 9440 with TLS).
func OpenNative(ctx context.Context, s Server, o Options) (*Store, error) {
	return Open(ctx, s.client(clickhouse.Native), o)
}

func (s Server) client(protocol clickhouse.Protocol) *clickhouse.Options {
	return &clickhouse.Options{
		Protocol: protocol, Addr: []string{s.Address}, TLS: s.TLS,
		Auth: clickhouse.Auth{Username: s.Username, Password: s.Password},
	}
}

// OpenSocket reads the store of a process that serves its engine on a unix socket (embedded.Engine.Serve).
func OpenSocket(ctx context.Context, path string, o Options) (*Store, error) {
	o.Reader = true
	return Open(ctx, embedded.SocketOptions(path), o)
}

// OpenEmbedded runs the engine in this process over dir and opens the store on it. Serve the engine on a socket for
// other processes; Close ends both. progress is told how the library is fetched when it is not there; it may be nil.
func OpenEmbedded(ctx context.Context, dir string, e embedded.Options, progress embedded.Progress, o Options) (*Store, *embedded.Engine, error) {
	path, err := embedded.Library(ctx, progress)
	if err != nil {
		return nil, nil, err
	}
	if err := embedded.Load(path); err != nil {
		return nil, nil, err
	}
	engine, err := embedded.Open(dir, e)
	if err != nil {
		return nil, nil, err
	}
	s, err := Open(ctx, engine.ClientOptions(), o)
	if err != nil {
		engine.Close()
		return nil, nil, err
	}
	s.after = engine.Close
	return s, engine, nil
}

// Open opens the store by a client's options, makes the database and brings its tables to this version unless
// o.Reader. Every other way to open is this one.
func Open(ctx context.Context, client *clickhouse.Options, o Options) (*Store, error) {
	if o.Database == "" {
		o.Database = DefaultDatabase
	}
	c := *client
	c.Settings = clickhouse.Settings{
		"async_insert": 0, // it acknowledges before rows are stored
		// The first runs of a statement would wait for a compiler longer than they take: measured 49 against 7 ms.
		"compile_expressions": 0, "compile_aggregate_expressions": 0, "compile_sort_description": 0,
	}
	maps.Copy(c.Settings, client.Settings)
	if !o.Reader {
		if err := makeDatabase(ctx, c, o.Database); err != nil {
			return nil, fmt.Errorf("make database %s: %w", o.Database, err)
		}
	}
	c.Auth.Database = o.Database
	if !o.Reader {
		if err := migrate(ctx, c); err != nil {
			return nil, fmt.Errorf("migrate the tables of database %s: %w", o.Database, err)
		}
	}
	conn, err := clickhouse.Open(&c)
	if err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", o.Database, err)
	}
	s := &Store{conn: conn, after: func() {}}
	if s.run, err = s.lastRun(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("open the store in database %s: %w", o.Database, err)
	}
	return s, nil
}

// Incarnations lists, rising, the incarnations that have tables under a name.
func (s *Store) Incarnations(ctx context.Context, name string) ([]uint64, error) {
	var list []uint64
	var database string
	err := s.query(ctx, []any{&database}, func() error {
		suffix, _ := strings.CutPrefix(database, name+"_")
		n, err := strconv.ParseUint(suffix, 10, 64)
		if database == name {
			n, err = 1, nil
		}
		if err == nil && Database(name, n) == database {
			list = append(list, n)
		}
		return nil
	}, "SELECT name FROM system.databases")
	if err != nil {
		return nil, fmt.Errorf("list the databases of %s: %w", name, err)
	}
	slices.Sort(list)
	return list, nil
}

func makeDatabase(ctx context.Context, c clickhouse.Options, name string) error {
	conn, err := clickhouse.Open(&c)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS {name:Identifier}", clickhouse.Named("name", name))
}

// migrate applies the migrations that the database's version table does not name. ClickHouse has no transactions for
// tables: each statement is written so that a second run after a crash in between does no harm.
func migrate(ctx context.Context, c clickhouse.Options) error {
	db := clickhouse.OpenDB(&c)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectClickHouse, db, schemas.ClickHouse(),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// Close ends the connections, and the engine of OpenEmbedded.
func (s *Store) Close() error {
	defer s.after()
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
