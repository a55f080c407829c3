package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
)

// Progress writes where a long piece of work stands: one line that rewrites itself on a terminal, a line every few
// seconds elsewhere.
type Progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
	shown    time.Time
	stage    string
}

// plainEvery is how often a line is written where none can be rewritten.
const plainEvery = 5 * time.Second

// NewProgress writes to out.
func NewProgress(out io.Writer, terminal bool) *Progress {
	return &Progress{out: out, terminal: terminal, began: time.Now()}
}

// Stage begins another piece of work.
func (p *Progress) Stage(text string) {
	if p.stage == text {
		return
	}
	p.stage = text
	p.shown = time.Time{}
	p.show(text)
}

// Bytes tells how much of something is done; total is 0 when it is not known.
func (p *Progress) Bytes(stage string, done, total int64) {
	const mib = 1 << 20
	text := fmt.Sprintf("ClickHouse engine: %s, %d MiB", stage, done/mib)
	if total > 0 {
		text = fmt.Sprintf("ClickHouse engine: %s, %d of %d MiB", stage, done/mib, total/mib)
	}
	p.stage = text
	p.show(text)
}

// At tells which instant of a scripted log is reached.
func (p *Progress) At(at, from, to span.Second) {
	done := min(100, int64(at-from)*100/int64(to-from))
	p.show(fmt.Sprintf("playing the trace: %s, %d %%", at.String()[:16], done))
}

// Reached tells which instant a piece of work has come to.
func (p *Progress) Reached(what string, at span.Second) {
	p.show(fmt.Sprintf("%s: %s", what, at.String()[:16]))
}

// Rated tells how many ratings of a quote are done. A quote that takes less than two seconds is not spoken of.
func (p *Progress) Rated(done, of int) {
	if time.Since(p.began) > 2*time.Second {
		p.show(fmt.Sprintf("rating the use again: %d of %d", done, of))
	}
}

func (p *Progress) show(text string) {
	now := time.Now()
	switch {
	case p.terminal && now.Sub(p.shown) > 100*time.Millisecond:
		fmt.Fprintf(p.out, "\r\x1b[K%5.1f s  %s", now.Sub(p.began).Seconds(), text)
	case !p.terminal && now.Sub(p.shown) > plainEvery:
		fmt.Fprintf(p.out, "%5.1f s  %s\n", now.Sub(p.began).Seconds(), text)
	default:
		return
	}
	p.shown = now
}

// Done clears the line.
func (p *Progress) Done() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
