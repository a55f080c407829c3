package gpuhour_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebitengine/purego"
)

// point is a place where a process can end: before a call of log or tables has an effect, or after it.
type point struct {
	Call  string
	After bool
}

// callOf leaves out of a call's name what differs from world to world: the keys of facts and the nodes.
func callOf(name string) string {
	method, subject, _ := strings.Cut(name, " gh.")
	switch tokens := strings.Split(subject, "."); tokens[0] {
	case "":
		return method
	case "fact":
		return method + " gh.fact." + tokens[1]
	default:
		return method + " gh." + tokens[0]
	}
}

// readPoint reads a line that playChild prints around a call.
func readPoint(line string) (point, bool) {
	n := 0
	_, err := fmt.Sscan(line, &n)
	_, name, _ := strings.Cut(line, " ")
	before, isBefore := strings.CutSuffix(name, " false")
	return point{callOf(strings.TrimSuffix(before, " true")), !isBefore}, err == nil
}

// Ways to end. A kill is what the kernel does when memory is short; the others happen inside C, as in the ClickHouse engine.
const (
	killed       = "kill -9"
	segmentFault = "a segment fault in C"
	aborted      = "an abort in C"
)

// death is where and how a process ends itself.
type death struct {
	Point point
	Nth   int // of the times that it comes there
	How   string
	times int
}

// readDeath reads a death as String writes it; nothing is none.
func readDeath(text string) (*death, error) {
	if text == "" {
		return nil, nil
	}
	d := new(death)
	return d, json.Unmarshal([]byte(text), d)
}

func (d *death) String() string {
	if d == nil {
		return ""
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// at ends the process when it is time. An error says that it could not.
func (d *death) at(p point) error {
	if d == nil || d.Point != p {
		return nil
	}
	if d.times++; d.times != d.Nth {
		return nil
	}
	name, wrong := "", uintptr(1)
	switch d.How {
	case killed:
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("SIGKILL did not end the process"))
	case segmentFault:
		name = "strlen" // of an address where nothing is
	case aborted:
		name = "abort"
	}
	f, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
	if err == nil {
		purego.SyscallN(f, wrong)
		err = fmt.Errorf("%s did not end the process", d.How)
	}
	return err
}

// TestKilledAtEveryCall ends the process that holds the real engines at every kind of call that it makes, before the call and
// after it, and starts it again on what is left. The kinds are those that an undisturbed life comes to, and those that lives
// come to only because of how the one before them ended. When a world is over its bills are core/replay's, and where no life
// ended in it one does in the next world.
func TestKilledAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse many times; left out of -short")
	}
	seed := testSeed(t)
	w, err := worldOf("small")
	if err != nil {
		t.Fatal(err)
	}
	want, dir := w.replayed(t), t.TempDir()
	embeddedConfig(t, dir) // is there an engine at all?
	first := live(t, filepath.Join(dir, "small"), "", -1)
	if first.err != nil {
		t.Fatalf("nothing disturbed it: %v\n%s", first.err, first.said)
	}
	known := &sync.Map{}
	chains := []*chain{{}, {}} // one a core
	for i, p := range inOrderOfLast(first.points) {
		known.Store(p, true)
		c := chains[i/2%len(chains)] // before and after belong together
		c.open = append(c.open, []point{p})
	}
	began := time.Now()
	t.Run("chains", func(t *testing.T) {
		for i, c := range chains {
			c.dir, c.dice, c.known = filepath.Join(dir, fmt.Sprint(i)), rand.New(rand.NewPCG(seed, uint64(i))), known
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	})
	longest, lives := map[string]time.Duration{}, 0
	for _, c := range chains {
		for n := range c.worlds {
			e := open(t, embeddedConfig(t, c.world(n)), quiet())
			compareKilled(t, e, w, want)
			closed(t, e)
		}
		lives += c.lives
		for how, took := range c.longest {
			longest[how] = max(longest[how], took.Round(time.Millisecond))
		}
	}
	t.Logf("%d lives in %v; the longest until everything stood again: %v", lives, time.Since(began).Round(time.Millisecond), longest)
}

// inOrderOfLast lists the points that a life came to, those first that it soon left behind for good.
func inOrderOfLast(points []point) (out []point) {
	last := map[string]int{}
	for i, p := range points {
		last[p.Call] = i
	}
	for _, call := range slices.SortedFunc(maps.Keys(last), func(a, b string) int { return cmp.Compare(last[a], last[b]) }) {
		out = append(out, point{call, false}, point{call, true})
	}
	return out
}

// chain is lives one after another on one directory, and on another one when the first world is over.
type chain struct {
	dir     string
	dice    *rand.Rand
	known   *sync.Map // the points that this or another chain has come to
	open    [][]point // where lives have to end yet, one after another; the last of them counts
	worlds  int
	lives   int
	longest map[string]time.Duration // until a life had settled what the one before it left, by how that one ended
}

func (c *chain) world(n int) string { return filepath.Join(c.dir, fmt.Sprint(n), "small") }

func (c *chain) run(t *testing.T) {
	c.longest = map[string]time.Duration{}
	for len(c.open) > 0 {
		if c.worlds == 4 {
			t.Fatalf("no life ended at %v in %d worlds", c.open, c.worlds)
		}
		if err := os.MkdirAll(c.world(c.worlds), 0o700); err != nil {
			t.Fatal(err)
		}
		c.worlds++
		c.open = c.lived(t)
	}
}

// lived lives until the world is over and returns where no life ended in it.
func (c *chain) lived(t *testing.T) [][]point {
	before := &death{How: "nothing"}
	for len(c.open) > 0 {
		ends := c.open[0]
		c.open = c.open[1:]
		for _, p := range ends {
			d := &death{Point: p, Nth: 1, How: []string{killed, segmentFault, aborted}[c.dice.IntN(3)]}
			if c.worlds == 1 && len(ends) == 1 {
				d.Nth += c.dice.IntN(3)
			}
			if c.live(t, d, before) {
				return append(c.open, ends)
			}
			before = d
		}
	}
	if !c.live(t, nil, before) {
		t.Fatal("a life that was not to end did")
	}
	return c.open // what the last one learned
}

// live is one life after another, and tells whether the world was over before its death came.
func (c *chain) live(t *testing.T, d, before *death) bool {
	l := live(t, c.world(c.worlds-1), d.String(), -1)
	c.lives++
	c.longest["after "+before.How] = max(c.longest["after "+before.How], l.settled)
	for _, p := range l.points {
		if _, known := c.known.LoadOrStore(p, true); !known {
			c.open = append(c.open, []point{before.Point, p})
		}
	}
	if l.err != nil && (d == nil || len(l.points) == 0 || l.points[len(l.points)-1] != d.Point) {
		t.Fatalf("a life that was to end at %v failed by itself after %q: %v\n%s", d, l.last, l.err, l.said)
	}
	return l.err == nil
}
