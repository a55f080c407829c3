package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"

	"github.com/gpuhour/gpuhour/platform/bus"
)

const user = "gpuhour"

// Options are for a server inside this process.
type Options struct {
	// Dir holds the streams. One process at a time.
	Dir string
	// Host and Port are where other commands reach the server. Port 0: nowhere; -1: any free port.
	// Host is 127.0.0.1 unless set.
	Host string
	Port int
	// Password is asked of connections from outside (user "gpuhour"), none when empty. Without one
	// every user of this machine can write facts; a host beyond loopback needs one.
	Password string
	// MaxStoreBytes bounds both streams. A quarter stays for facts unless Streams says otherwise.
	// 0: three quarters of the free disk, as nats-server decides.
	MaxStoreBytes int64
	Streams       StreamOptions
	// Logger gets the server's warnings and errors, slog.Default() when nil.
	Logger *slog.Logger
}

// Embedded is a Bus together with the server it talks to.
type Embedded struct {
	*Bus
	server    *server.Server
	url       string
	lock      *os.File
	closeOnce sync.Once
	closeErr  error
}

// Start runs a NATS server with JetStream in this process and connects to it in memory. What it
// acknowledges is synced. It returns when the streams in Dir are recovered, which takes longer the
// more they hold.
func Start(ctx context.Context, o Options) (*Embedded, error) {
	options, err := serverOptions(o)
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("start NATS in %s: %w", o.Dir, err)
	}
	e := &Embedded{lock: lock}
	if err := e.start(ctx, o, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start NATS in %s: %w", o.Dir, err), e.Close())
	}
	return e, nil
}

// URL is where other processes reach the server, empty when it does not listen.
func (e *Embedded) URL() string { return e.url }

// Stores ends when the server could not write a stream, with the reason as its cause: nothing is stored any more until it is
// started again.
func (e *Embedded) Stores() context.Context { return e.stores }

// Close ends the connection, stops the server and frees the directory. Everything acknowledged is
// on disk already.
func (e *Embedded) Close() error {
	e.closeOnce.Do(func() {
		if e.Bus != nil {
			e.closeErr = e.Bus.Close()
		}
		if e.server != nil {
			e.server.Shutdown()
			e.server.WaitForShutdown()
		}
		e.closeErr = errors.Join(e.closeErr, e.lock.Close())
	})
	return e.closeErr
}

func (e *Embedded) start(ctx context.Context, o Options, options *server.Options) (err error) {
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	if free, err := freeBytes(o.Dir); err == nil && free < bus.MaxBatchBytes { // the server's limit would stay there
		return fmt.Errorf("its disk has %d bytes left: make room", free)
	}
	stores, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	if err := e.serve(options, &serverLog{log: log, fail: fail}); err != nil {
		return err
	}
	if e.Bus, err = e.dial(o.Password, log); err != nil {
		return err
	}
	e.dir, e.stores = o.Dir, stores
	if o.Streams.UsageMaxBytes == 0 && o.MaxStoreBytes > 0 {
		o.Streams.UsageMaxBytes = o.MaxStoreBytes / 4 * 3
	}
	return e.ensureStreams(ctx, o.Streams)
}

// serve starts the server.
func (e *Embedded) serve(options *server.Options, log *serverLog) (err error) {
	if e.server, err = server.NewServer(options); err != nil {
		return err
	}
	e.server.SetLoggerV2(log, false, false, false)
	e.server.Start() // returns after recovery
	if !e.server.ReadyForConnections(requestTimeout) {
		return fmt.Errorf("it is not ready after %s: %s", requestTimeout, log.last())
	}
	if !e.server.JetStreamEnabled() {
		return fmt.Errorf("JetStream did not start: %s", log.last())
	}
	if !options.DontListen {
		e.url = e.server.ClientURL()
	}
	return nil
}

func (e *Embedded) dial(password string, log *slog.Logger) (*Bus, error) {
	options := []nats.Option{
		nats.InProcessServer(e.server),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Error("nats: " + err.Error()) }),
	}
	if password != "" {
		options = append(options, nats.UserInfo(user, password))
	}
	return dial("", options...)
}

func serverOptions(o Options) (*server.Options, error) {
	if o.Dir == "" {
		return nil, errors.New("no directory given")
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if ip := net.ParseIP(o.Host); o.Port != 0 && o.Password == "" && o.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listening on %s needs a password", o.Host)
	}
	options := &server.Options{
		ServerName:        "gpuhour",
		DontListen:        o.Port == 0,
		Host:              o.Host,
		Port:              o.Port,
		JetStream:         true,
		StoreDir:          o.Dir,
		JetStreamMaxStore: o.MaxStoreBytes,
		SyncAlways:        true, // else acknowledged messages are lost with the power for two minutes
		NoSigs:            true, // signals belong to the program
	}
	return options, setUser(options, o.Password)
}

// setUser defines the one user of the server. The streams deny deleting messages, but only the user's
// permissions can deny deleting a stream.
func setUser(options *server.Options, password string) error {
	permissions := &server.Permissions{Publish: &server.SubjectPermission{
		Allow: []string{">"},
		Deny:  []string{"$JS.API.STREAM.DELETE.>"},
	}}
	if password == "" { // whoever connects is the holder of a key that nobody holds
		key, err := nkeys.CreateUser()
		if err != nil {
			return err
		}
		if options.NoAuthUser, err = key.PublicKey(); err != nil {
			return err
		}
		options.Nkeys = []*server.NkeyUser{{Nkey: options.NoAuthUser, Permissions: permissions}}
		return nil
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost) // it only lives in memory
	if err != nil {
		return fmt.Errorf("password: %w", err)
	}
	options.Users = []*server.User{{Username: user, Password: string(hash), Permissions: permissions}}
	return nil
}

// serverLog passes on what needs a person and keeps the last error, because the server reports why
// it did not start to its log only. So it does with a stream that it could not write: it stores nothing there until it is
// started again, even when the disk has room again, and leaves publications without an answer.
type serverLog struct {
	log  *slog.Logger
	fail context.CancelCauseFunc
	mu   sync.Mutex
	err  string
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, v ...any) {
	l.log.Warn("nats-server: " + fmt.Sprintf(format, v...))
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("nats-server: " + text)
	if strings.HasPrefix(text, "JetStream stream ") && strings.Contains(text, " critical write error: ") {
		l.fail(fmt.Errorf("the log takes nothing more until this process is started again: %s", text))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = text
}

func (l *serverLog) Fatalf(format string, v ...any) { l.Errorf(format, v...) }

func (l *serverLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.err)
}
