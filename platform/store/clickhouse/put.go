package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gpuhour/gpuhour/platform/store"
)

func (s *Store) loadEpochs(ctx context.Context) error {
	var name string
	var n uint64
	return s.query(ctx, []any{&name, &n}, func() error {
		s.epochs[name] = n
		return nil
	}, "SELECT table_name, count() FROM trim GROUP BY table_name")
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
	if err := s.putRows(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := s.insert(ctx, progressTable(), "", [][]any{progressRow(p.Progress)}); err != nil {
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
			failed[i] = s.insert(ctx, t, token(t, s.epochs[t.name], first, last, rows), rows)
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
	for _, t := range rowTables() {
		if err := s.trim(ctx, t.name, block); err != nil {
			return fmt.Errorf("delete rows of %s above block %d: %w", t.name, block, err)
		}
	}
	return nil
}

// trim raises the epoch before it deletes: after a crash in between there is an epoch too many, which does no harm.
func (s *Store) trim(ctx context.Context, name string, block uint64) error {
	above, err := s.countAbove(ctx, name, block)
	if err != nil || above == 0 {
		return err
	}
	if err := s.insert(ctx, trimTable(), "", [][]any{{name, block, above}}); err != nil {
		return err
	}
	s.epochs[name]++
	waiting := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2, "lightweight_deletes_sync": 2}))
	if err := s.conn.Exec(waiting, "DELETE FROM "+name+" WHERE block > {block:UInt64}", clickhouse.Named("block", block)); err != nil {
		return err
	}
	left, err := s.countAbove(ctx, name, block)
	if err == nil && left > 0 {
		return fmt.Errorf("%d rows are still there", left)
	}
	return err
}

func (s *Store) countAbove(ctx context.Context, name string, block uint64) (uint64, error) {
	var n uint64
	row := s.conn.QueryRow(ctx, "SELECT count() FROM "+name+" WHERE block > {block:UInt64}", clickhouse.Named("block", block))
	return n, row.Scan(&n)
}
