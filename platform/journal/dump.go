package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// record is one message of a written log: the bytes as stored. Times are left out: a scripted log has none that count.
type record struct {
	Stream  string            `json:"stream"`
	Seq     uint64            `json:"seq"`
	Subject string            `json:"subject"`
	Header  map[string]string `json:"header,omitempty"`
	Data    []byte            `json:"data"`
}

// Dump writes a whole log as JSON lines: facts, then usage with its ticks.
func Dump(ctx context.Context, b bus.Bus, w io.Writer) error {
	out := json.NewEncoder(w)
	for _, stream := range []string{bus.Facts, bus.Usage} {
		for after := uint64(0); ; {
			messages, err := b.Read(ctx, stream, after, chunk)
			if err != nil {
				return fmt.Errorf("dump %s after %d: %w", stream, after, err)
			}
			if len(messages) == 0 {
				break
			}
			for _, m := range messages {
				if err := out.Encode(record{m.Stream, m.Seq, m.Subject, m.Header, m.Data}); err != nil {
					return fmt.Errorf("dump %s %d: %w", stream, m.Seq, err)
				}
			}
			after = messages[len(messages)-1].Seq
		}
	}
	return nil
}

// Load publishes a dumped log into an empty one, every message under its own position.
func Load(ctx context.Context, b bus.Bus, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 2*bus.MaxMessageBytes)
	for n := 1; lines.Scan(); n++ {
		var m record
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("load log, line %d: %w", n, err)
		}
		seq, err := b.Publish(ctx, bus.Publication{Subject: m.Subject, Header: m.Header, Data: m.Data})
		if err != nil {
			return fmt.Errorf("load log, line %d: %w", n, err)
		}
		if seq != m.Seq {
			return fmt.Errorf("load log, line %d: %s %d came to stand at %d: the log was not empty, or lines are missing", n, m.Stream, m.Seq, seq)
		}
	}
	return lines.Err()
}
