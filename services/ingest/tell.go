package ingest

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// tellEvery is how often one kind of line comes at most: what befalls a fleet befalls thousands of nodes in one second.
const tellEvery = 10 * time.Second

// teller writes what a person has to know, with the number of nodes that each kind spoke of since its line before.
type teller struct {
	log   *slog.Logger
	mu    sync.Mutex
	kinds map[string]*told
}

type told struct {
	at    time.Time
	nodes int
}

func (t *teller) tell(level slog.Level, kind, message string, nodes int, args ...any) {
	if n := t.due(kind, nodes); n > 0 {
		t.log.Log(context.Background(), level, message, append([]any{"nodes", n}, args...)...)
	}
}

// due is the number of nodes to tell of, 0 when it is too early for a line.
func (t *teller) due(kind string, nodes int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[kind]
	if k == nil {
		k = &told{}
		t.kinds[kind] = k
	}
	k.nodes += nodes
	now := time.Now()
	if now.Sub(k.at) < tellEvery {
		return 0
	}
	n := k.nodes
	k.at, k.nodes = now, 0
	return n
}
