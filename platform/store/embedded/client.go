package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// clientConns lets many goroutines hold a batch while others read. They wait for a session in the engine, by their
// context, and not in the client, which gives up after its dial timeout.
const clientConns = 64

// ClientOptions are the options with which clickhouse.Open speaks to the engine inside this process, without a
// socket. The engine must outlive the client.
func (e *Engine) ClientOptions() *clickhouse.Options {
	return &clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{"localhost"}, MaxOpenConns: clientConns, MaxIdleConns: e.handles,
		TransportFunc: func(*http.Transport) (http.RoundTripper, error) { return transport{e}, nil },
	}
}

// SocketOptions are the options with which clickhouse.Open speaks to an engine that serves on a unix socket in
// another process.
func SocketOptions(path string) *clickhouse.Options {
	return &clickhouse.Options{
		Protocol: clickhouse.HTTP, MaxOpenConns: clientConns,
		Addr: []string{"localhost"}, // a name no HTTP_PROXY setting applies to
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
			if err != nil {
				return nil, fmt.Errorf("reach the engine on %s: %w (is the process that serves it running?)", path, err)
			}
			return conn, nil
		},
	}
}

// Listen makes a unix socket that only this user can connect to (mode 0600). A socket left behind by a killed process
// is replaced, one that answers is not. Call it after Open: the data directory's lock decides who may serve.
func Listen(path string) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("listen on %s: another process answers there", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("listen on %s: a file that is no socket has this name", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket: %w (a socket's path is at most about 100 bytes long)", err)
	}
	// Until this line the mode is the process's umask, which by custom lets nobody else write, so connect.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("make the socket private: %w", err)
	}
	return l, nil
}

// drainTime is how long Serve waits for requests that run when it is told to stop.
const drainTime = 30 * time.Second

// Serve answers on l until ctx ends, then lets the requests that run finish and returns nil. It closes l.
func (e *Engine) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the engine on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close()
		return fmt.Errorf("stop serving the engine on %s with requests still running: %w", l.Addr(), err)
	}
	return nil
}

// transport hands the client's requests to a handler in the same process.
type transport struct{ handler http.Handler }

// RoundTrip returns when the answer is there or the request's context ends. In the second case the statement, if it
// has begun, runs to its end unseen, as it does when a connection to a server breaks.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	done := make(chan *http.Response, 1)
	go func() {
		served := r.WithContext(r.Context())
		if served.Body == nil {
			served.Body = http.NoBody
		}
		defer served.Body.Close() // a RoundTripper owes it, also on errors
		rec := recorder{header: http.Header{}, status: http.StatusOK}
		t.handler.ServeHTTP(&rec, served)
		done <- rec.response(r) //nolint:bodyclose // the caller of RoundTrip closes it
	}()
	select {
	case res := <-done:
		return res, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// recorder is a ResponseWriter that keeps the answer in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func (r *recorder) response(request *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: io.NopCloser(&r.body), ContentLength: int64(r.body.Len()), Request: request,
	}
}
