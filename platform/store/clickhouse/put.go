package clickhouse

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gpuhour/gpuhour/platform/store"
)

// anyRun is the run in a progress that stands on no rows.
const anyRun = math.MaxUint64

// counts tells progress that stands from progress whose rows another run deleted.
const counts = "(run >= (SELECT max(run) FROM run) OR block <= (SELECT argMax(block, run) FROM run))"

// lastRun is the run that counts, 0 before the first.
func (s *Store) lastRun(ctx context.Context) (run uint64, err error) {
	err = s.conn.QueryRow(ctx, "SELECT max(run) FROM run").Scan(&run)
	return run, err
}

// checkRun is an error once another process began a run: this one may have read while rows were deleted. When it was true
// after the last read, what is put is right, however late it lands.
func (s *Store) checkRun(ctx context.Context) error {
	last, err := s.lastRun(ctx)
	if err == nil && last != s.run {
		err = store.ErrOtherWriter
	}
	return err
}

// Put implements store.Store: one insert for each table that has rows, then the progress. The order of effects is
// here and nowhere else.
func (s *Store) Put(ctx context.Context, p store.Put) error {
	what := fmt.Sprintf("put rows of %s up to block %d", p.Progress.Service, p.Progress.Block)
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	run := uint64(anyRun)
	if len(p.Outcomes) > 0 {
		run = s.run
		if err := s.checkRun(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := s.putRows(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := s.insert(ctx, progressTable(), "", [][]any{progressRow(p.Progress, run)}); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// putRows waits for the disk once for each table, at the same time: the tables do not depend on each other.
func (s *Store) putRows(ctx context.Context, p store.Put) error {
	var wg sync.WaitGroup
	tables := rowTables()
	failed := make([]error, len(tables))
	for i, t := range tables {
		rows := rowsOf(t.name, p.Outcomes)
		if len(rows) == 0 {
			continue
		}
		first, last := p.Outcomes[0].Block, p.Outcomes[len(p.Outcomes)-1].Block
		wg.Go(func() {
			failed[i] = s.insert(ctx, t, token(t, s.run, first, last, rows), rows)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// insert sends rows as one block, which the engine stores whole or not at all. An empty token asks for no
// deduplication.
func (s *Store) insert(ctx context.Context, t table, token string, rows [][]any) error {
	if token != "" {
		ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"insert_deduplication_token": token}))
	}
	batch, err := s.conn.PrepareBatch(ctx, "INSERT INTO "+t.name+" ("+t.columns+")", driver.WithReleaseConnection())
	if err != nil {
		return fmt.Errorf("insert %d rows into %s: %w", len(rows), t.name, err)
	}
	defer batch.Close()
	for _, row := range rows {
		if err := batch.Append(row...); err != nil {
			return fmt.Errorf("insert a row into %s: %w", t.name, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert %d rows into %s: %w", len(rows), t.name, err)
	}
	return nil
}

// Trim implements store.Store. It costs one small read a table when there is nothing to delete.
func (s *Store) Trim(ctx context.Context, block uint64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.trim(ctx, block); err != nil {
		return fmt.Errorf("delete rows above block %d: %w", block, err)
	}
	return nil
}

func (s *Store) trim(ctx context.Context, block uint64) (err error) {
	if s.run, err = s.lastRun(ctx); err != nil {
		return err
	}
	if err := s.checkPosition(ctx, block); err != nil {
		return err
	}
	var names []string
	for _, t := range rowTables() {
		above, err := s.countAbove(ctx, t.name, block)
		if err != nil {
			return err
		}
		if above > 0 {
			names = append(names, t.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := s.beginRun(ctx, block); err != nil {
		return err
	}
	// A delete can land late as well, when another run has put rows again: then it finds nothing to do.
	waiting := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2, "lightweight_deletes_sync": 2}))
	for _, name := range names {
		err := s.conn.Exec(waiting, "DELETE FROM "+name+" WHERE block > {block:UInt64} AND {run:UInt64} = (SELECT max(run) FROM run)",
			clickhouse.Named("block", block), clickhouse.Named("run", s.run))
		if err != nil {
			return err
		}
		if left, err := s.countAbove(ctx, name, block); err != nil || left > 0 {
			return cmp.Or(err, fmt.Errorf("%d rows of %s are still there", left, name))
		}
	}
	return nil
}

// checkPosition is an error when rows below the caller's progress are not whole under this run: another process deleted some
// since the caller read it.
func (s *Store) checkPosition(ctx context.Context, block uint64) error {
	var rows, top, begin uint64
	err := s.conn.QueryRow(ctx, `SELECT count(), max(block), (SELECT argMax(block, run) FROM run) FROM progress
		WHERE run != {any:UInt64} AND `+counts, clickhouse.Named("any", uint64(anyRun))).Scan(&rows, &top, &begin)
	if err == nil && (rows > 0 && top < block || rows == 0 && s.run > 0 && block > begin) {
		err = store.ErrOtherWriter
	}
	return err
}

// beginRun comes before the first delete: after a crash in between there is a run too many, which does no harm. From here on
// no progress that another process puts above the block counts. The progress at the block goes on under the new run.
func (s *Store) beginRun(ctx context.Context, block uint64) error {
	var drawn [4]byte
	rand.Read(drawn[:]) // never an error
	run := (s.run>>32+1)<<32 | uint64(binary.BigEndian.Uint32(drawn[:]))
	columns := strings.TrimSuffix(progressTable().columns, ", run")
	err := s.conn.Exec(ctx, "INSERT INTO progress ("+columns+", run) SELECT "+columns+`, {run:UInt64} FROM progress
		WHERE run != {any:UInt64} AND block = {block:UInt64} LIMIT 1 BY service`,
		clickhouse.Named("run", run), clickhouse.Named("any", uint64(anyRun)), clickhouse.Named("block", block))
	if err != nil {
		return err
	}
	if err := s.insert(ctx, runTable(), "", [][]any{{run, block}}); err != nil {
		return err
	}
	s.run = run
	return s.checkRun(ctx) // two processes may begin one at once
}

func (s *Store) countAbove(ctx context.Context, name string, block uint64) (uint64, error) {
	var n uint64
	row := s.conn.QueryRow(ctx, "SELECT count() FROM "+name+" WHERE block > {block:UInt64}", clickhouse.Named("block", block))
	return n, row.Scan(&n)
}
