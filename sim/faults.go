package sim

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// Kinds of fault.
const (
	crashBefore = "crash before a call"
	crashAfter  = "crash after a call"
	crashInside = "crash inside a put"
	noAnswer    = "error before the effect"
	lostAnswer  = "effect, then an error"
	lands       = "error now, effect later"
	twice       = "stored twice"
	short       = "short read"
	stall       = "stall"
)

// errInjected is a call whose outcome nobody knows, as after a broken connection.
var errInjected = fmt.Errorf("injected: %w", bus.ErrAmbiguous) //tidy:const

// errStalled is a call that did not come back in its time.
var errStalled = fmt.Errorf("injected stall: %w", bus.ErrAmbiguous) //tidy:const

func injected(err error) bool { return errors.Is(err, errInjected) || errors.Is(err, errStalled) }

// crashed is thrown where a process dies: nothing of it runs any more.
type crashed struct{ at string }

// faults decides what goes wrong at each call of a port, and writes the transcript.
type faults struct {
	seed    uint64
	dices   map[string]*rand.Rand // by who calls, so that leaving one out changes nobody else's luck
	rarity  int                   // one call in so many fails
	off     bool
	without map[string]bool // kinds left out
	after   int             // faults left out before this one, to make a history smaller
	n       int
	who     string // whose call it is
	away    bool   // whoever calls cannot reach the log
	counts  map[string]int
	hash    hash.Hash
	tell    func(format string, args ...any)
	heading string
	waiting []func() // effects that land later
}

func newFaults(seed uint64, o Options) *faults {
	d := rand.New(rand.NewPCG(seed, 2))
	return &faults{
		seed: seed, dices: map[string]*rand.Rand{}, rarity: pick(d, 25, 60, 200, 800), without: o.WithoutFaults, after: o.FaultsFrom,
		counts: map[string]int{}, hash: sha256.New(),
	}
}

// dice are those of whoever calls.
func (f *faults) dice() *rand.Rand {
	d := f.dices[f.who]
	if d == nil {
		name := fnv.New64a()
		name.Write([]byte(f.who)) // a hash never returns an error
		d = rand.New(rand.NewPCG(f.seed, name.Sum64()))
		f.dices[f.who] = d
	}
	return d
}

// note goes into the transcript, and into the story when somebody listens.
func (f *faults) note(format string, args ...any) {
	fmt.Fprintf(f.hash, format+"\n", args...)
	f.tells(format, args...)
}

// tells goes into the story only: the transcript has it otherwise.
func (f *faults) tells(format string, args ...any) {
	if f.tell == nil {
		return
	}
	if f.heading != "" {
		f.tell("%s", f.heading)
		f.heading = ""
	}
	f.tell(format, args...)
}

// hear puts a message into the transcript.
func (f *faults) hear(m bus.Message) {
	f.hash.Write([]byte(m.Subject)) // a hash never returns an error
	f.hash.Write(m.Data)
}

// head is a note that is only told when something follows it.
func (f *faults) head(text string) {
	fmt.Fprintln(f.hash, text)
	f.heading = text
}

// draw picks a fault for a call among kinds, or none.
func (f *faults) draw(call string, kinds ...string) string {
	if f.off || f.dice().IntN(f.rarity) > 0 {
		return ""
	}
	kind := pick(f.dice(), kinds...)
	f.n++
	if f.without[kind] || f.n <= f.after {
		return ""
	}
	f.counts[kind]++
	f.note("  fault %d: %s, %s: %s", f.n, f.who, call, kind)
	return kind
}

// do is one call of a port, with the faults that any call can have and the caller's own.
func (f *faults) do(call string, effect func() error, own ...string) error {
	if f.away {
		f.counts[stall]++
		return errStalled
	}
	f.land()
	kind := f.draw(call, append([]string{crashBefore, crashAfter, noAnswer, lostAnswer, stall}, own...)...)
	switch kind {
	case crashBefore:
		panic(crashed{call})
	case noAnswer:
		return errInjected
	case stall:
		return errStalled
	case lands:
		f.waiting = append(f.waiting, func() { _ = effect() }) // refused by then, as often as not
		return errInjected
	}
	err := effect()
	switch kind {
	case crashAfter:
		panic(crashed{call})
	case lostAnswer:
		return errInjected
	case twice:
		err = effect()
	}
	return err
}

// land lets a waiting effect happen now and then.
func (f *faults) land() {
	if len(f.waiting) > 0 && f.dice().IntN(6) == 0 {
		effect := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.note("  a waiting publication lands")
		effect()
	}
}

// heal ends all faults; what was still under way lands or is lost.
func (f *faults) heal() {
	f.off, f.away = true, false
	for _, effect := range f.waiting {
		if f.dice().IntN(2) == 0 {
			effect()
		}
	}
	f.waiting = nil
}
