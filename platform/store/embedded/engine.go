package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Defaults of Options.
const (
	DefaultHandles          = 8
	DefaultMemoryLimitBytes = 2 << 30
)

// ErrClosed is the answer to a statement after Close has begun.
var ErrClosed = errors.New("the embedded engine is closed")

// ErrLocked says that another process has the data directory open. Read it through that process's socket instead
// (SocketOptions).
var ErrLocked = errors.New("another process has it open")

// process is the one mutable global of this package: dlopen maps a library into the whole process and libchdb serves
// one data directory per process, so both facts belong to the process and to no value a caller could hold.
type process struct {
	mu      sync.Mutex // also held while connecting and closing: the engine starts and stops inside those calls
	library *library
	path    string // of the library
	dir     string // the data directory in use while engines > 0
	engines int
}

//tidy:process
var theProcess process

// Load maps libchdb into the process; Library gives the path. Loading the same path again does nothing. Another path
// is an error, because a second engine in one process would share the first one's symbols.
func Load(path string) error {
	theProcess.mu.Lock()
	defer theProcess.mu.Unlock()
	if theProcess.library != nil {
		if theProcess.path != path {
			return fmt.Errorf("load engine library %s: %s is loaded already, and a process holds one", path, theProcess.path)
		}
		return nil
	}
	lib, err := dlopen(path)
	if err != nil {
		return err
	}
	lib.setSignals(0) // Go's runtime needs its own signal handlers: preemption and nil dereferences use them
	theProcess.library, theProcess.path = lib, path
	return nil
}

// Options of Open. Zero values take the defaults.
type Options struct {
	// Handles is how many statements run at once; each is a session of its own. The others wait.
	Handles int
	// MemoryLimitBytes caps the engine as a whole and each statement. A statement over it fails with ClickHouse's
	// error 241 and the engine goes on. Of several engines open on one directory the first sets the cap of the whole.
	MemoryLimitBytes int64
}

// Engine is an open data directory. It is an http.Handler for ClickHouse's HTTP interface and is safe for concurrent
// use.
type Engine struct {
	dir     string
	version string
	handles int
	pool    chan *session
	closing chan struct{}
	close   func()
}

// Open opens dir, which is made (mode 0700) when missing, and returns when it answers statements. Load comes first.
// Opening a directory twice in one process gives two engines over the same data. It is an error when this process has
// another directory open, and ErrLocked when another process has this one.
func Open(dir string, o Options) (*Engine, error) {
	if o.Handles == 0 {
		o.Handles = DefaultHandles
	}
	if o.MemoryLimitBytes == 0 {
		o.MemoryLimitBytes = DefaultMemoryLimitBytes
	}
	if o.Handles < 0 || o.MemoryLimitBytes < 0 {
		return nil, fmt.Errorf("open data directory %s: handles %d and memory limit %d bytes cannot be negative", dir, o.Handles, o.MemoryLimitBytes)
	}
	name, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open data directory %q: %w", dir, err)
	}
	e, err := theProcess.open(name, o)
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", name, err)
	}
	version, err := e.askVersion()
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("open data directory %s: ask the engine its version: %w", name, err)
	}
	e.version = version
	return e, nil
}

// makeDir returns the one absolute name of a directory, so that two spellings of it are not taken for two.
func makeDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("it has no name")
	}
	if err := makeWritable(dir); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func (p *process) open(dir string, o Options) (*Engine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.library == nil {
		return nil, errors.New("the engine library is not loaded: call Load first")
	}
	if p.engines > 0 && p.dir != dir {
		return nil, fmt.Errorf("this process has %s open, and the engine serves one directory a process: close that one first", p.dir)
	}
	if p.engines == 0 {
		if err := checkUnlocked(dir); err != nil {
			return nil, err
		}
	}
	e := &Engine{
		dir: dir, handles: o.Handles,
		pool: make(chan *session, o.Handles), closing: make(chan struct{}),
	}
	e.close = sync.OnceFunc(func() { p.shut(e) })
	for range o.Handles {
		s := newSession(p.library, dir, o.MemoryLimitBytes)
		if err := s.connect(); err != nil {
			e.hangUp(len(e.pool))
			return nil, err
		}
		e.pool <- s
	}
	p.dir, p.engines = dir, p.engines+1
	return e, nil
}

// shut waits for every statement to hand its session back and closes them; closing the last session of the process
// stops the engine, which writes what it still holds.
func (p *process) shut(e *Engine) {
	close(e.closing)
	sessions := make([]*session, e.handles)
	for i := range sessions {
		sessions[i] = <-e.pool
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range sessions {
		s.hangUp()
	}
	p.engines--
}

func (e *Engine) hangUp(n int) {
	for range n {
		(<-e.pool).hangUp()
	}
}

// checkUnlocked looks at the engine's own lock file, because the engine reports a locked directory only on stderr.
func checkUnlocked(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "status"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // never opened before
	}
	if err != nil {
		return err
	}
	defer f.Close() // also gives the lock back
	free, err := tryLock(f)
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if free {
		return nil
	}
	text := make([]byte, 64)
	n, _ := f.Read(text) // only to name the process; an empty file is fine
	owner, _, _ := strings.Cut(string(text[:n]), "\n")
	if owner == "" {
		owner = "PID unknown"
	}
	return fmt.Errorf("%w (%s): stop that process, or read through its socket", ErrLocked, owner)
}

// Dir is the data directory's absolute path.
func (e *Engine) Dir() string { return e.dir }

// EngineVersion is the ClickHouse version that answers, for example 26.7.2.1.
func (e *Engine) EngineVersion() string { return e.version }

// Close refuses new statements, waits for those that run, and gives the directory back. A second call waits too.
func (e *Engine) Close() { e.close() }

// acquire waits for a free session. Release it with e.pool <- s.
func (e *Engine) acquire(ctx context.Context) (*session, error) {
	select {
	case <-e.closing:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	select {
	case s := <-e.pool:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.closing:
		return nil, ErrClosed
	}
}

func (e *Engine) run(ctx context.Context, s statement) ([]byte, error) {
	free, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { e.pool <- free }()
	out, err := free.run(ctx, s)
	if full := (*Error)(nil); errors.As(err, &full) && full.Code == codeNoSpace {
		full.Message += "; make room on the disk of " + e.dir
	}
	return out, err
}

func (e *Engine) askVersion() (string, error) {
	out, err := e.run(context.Background(), statement{text: "SELECT version()", format: "TSVRaw"})
	return strings.TrimSpace(string(out)), err
}
