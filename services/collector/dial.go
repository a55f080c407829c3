package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Connection is a log that can be given back.
type Connection interface {
	Log
	Close() error
}

// Dialled is a log that is reached when it is needed: a collector samples although no log answers yet. A connection with which
// something went wrong is given back, and the next call makes another, to where the log is then.
type Dialled struct {
	dial func(context.Context) (Connection, error)

	mu   sync.Mutex
	conn Connection // nil between connections
}

// Dial is a log behind dial, which is called for each connection.
func Dial(dial func(context.Context) (Connection, error)) *Dialled { return &Dialled{dial: dial} }

// Publish implements Log.
func (d *Dialled) Publish(ctx context.Context, out []Outgoing) (last uint64, err error) {
	err = d.with(ctx, func(l Log) error {
		last, err = l.Publish(ctx, out)
		return err
	})
	return last, err
}

// Last implements Log.
func (d *Dialled) Last(ctx context.Context, node string) (held Held, err error) {
	err = d.with(ctx, func(l Log) error {
		held, err = l.Last(ctx, node)
		return err
	})
	return held, err
}

func (d *Dialled) with(ctx context.Context, f func(Log) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		conn, err := d.dial(ctx)
		if err != nil {
			return fmt.Errorf("reach the log: %w", err)
		}
		d.conn = conn
	}
	err := f(d.conn)
	answered := err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrDeclined) || errors.Is(err, ErrUntold)
	if !answered { // a fleet that reconnects because an ingest is busy would keep it so
		err = errors.Join(err, d.close())
	}
	return err
}

func (d *Dialled) close() error {
	conn := d.conn
	d.conn = nil
	if conn == nil {
		return nil
	}
	return conn.Close()
}

// Close gives the connection back.
func (d *Dialled) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.close()
}
