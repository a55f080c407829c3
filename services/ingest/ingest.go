package ingest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// Log is the part of bus.Bus that an ingest uses.
type Log interface {
	PublishBatch(ctx context.Context, ps []bus.Publication) (last uint64, err error)
	Last(ctx context.Context, subject string) (bus.Message, error)
	ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) ([]bus.Message, error)
}

// Door is where requests come in (natsbus.Bus). After stop has returned without an error take is not called any more.
type Door interface {
	Serve(subject, name string, take func(subject string, data []byte, answer func([]byte) error)) (stop func(context.Context) error, err error)
}

// Options are what a site may choose; zero means the default.
type Options struct {
	// Lanes is how many commits are under way at once: while one is synced, the next is on its way. 3.
	Lanes int
	// Linger is how long the first request of a commit waits for others; less than 0 is not at all. 2 ms.
	Linger time.Duration
	// QueueBytes bounds the requests that are taken and not answered yet. Beyond it nodes are told that it is busy. 256 MiB:
	// nodes send at the same seconds, so it has to hold what the whole fleet says at once.
	QueueBytes int64
	Logger     *slog.Logger // slog.Default() when nil
}

const (
	readers      = 8               // questions for what stands that are under way at once
	maxWaiting   = 1 << 17         // requests in front of a lane, and questions; beyond them: busy
	stopPatience = 8 * time.Second // until what is under way is given up and answered as unknown
)

// Ingest is one process of any number that serve at once.
type Ingest struct {
	log     Log
	options Options
	metrics *obs.Ingest
	lanes   []*lane
	asked   chan *request
	teller  teller
	held    atomic.Int64 // bytes of requests
}

// New makes an ingest on a log.
func New(log Log, m *obs.Ingest, o Options) *Ingest {
	if o.Lanes <= 0 {
		o.Lanes = 3
	}
	if o.Linger == 0 {
		o.Linger = 2 * time.Millisecond
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 256 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	in := &Ingest{log: log, options: o, metrics: m, asked: make(chan *request, maxWaiting), teller: teller{log: o.Logger, kinds: map[string]*told{}}}
	for range o.Lanes {
		in.lanes = append(in.lanes, newLane(in))
	}
	return in
}

// Run serves until ctx ends, then answers what it took and returns. An error means that it could not begin or not end so.
func (in *Ingest) Run(ctx context.Context, door Door) error {
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var group sync.WaitGroup
	for _, l := range in.lanes {
		group.Go(func() { l.run(working) })
	}
	for range readers {
		group.Go(func() { in.answerQuestions(working) })
	}
	stop, err := door.Serve(wire.All, wire.Queue, in.take)
	if err == nil {
		<-ctx.Done()
		var patience context.Context
		patience, cancel := context.WithTimeout(working, stopPatience)
		defer cancel()
		context.AfterFunc(patience, abandon)
		err = stop(patience)
	}
	for _, l := range in.lanes {
		l.close()
	}
	close(in.asked)
	group.Wait()
	return err
}

// take finds the lane of a request and never blocks.
func (in *Ingest) take(subject string, data []byte, answer func([]byte) error) {
	r := &request{subject: wire.UsageSubject(subject), data: data, reply: answer, arrived: time.Now()}
	l := in.lanes[codec.Partition(r.subject)%len(in.lanes)]
	held := in.hold(len(data))
	if held > in.options.QueueBytes {
		in.teller.tell(slog.LevelWarn, "queue", "the queue is full; nodes are told to send again later", 1, "waiting_bytes", held)
		in.answer(r, wire.Answer{Outcome: wire.Busy})
	} else if !l.admit(r) {
		in.answer(r, wire.Answer{Outcome: wire.Busy})
	}
}

// hold counts bytes of requests in, and out when n is below 0.
func (in *Ingest) hold(n int) (held int64) {
	held = in.held.Add(int64(n))
	in.metrics.Waiting.Add(float64(n))
	return held
}

// answerQuestions tells nodes what stands, beside the lanes, which a fleet that starts would hold up.
func (in *Ingest) answerQuestions(ctx context.Context) {
	for r := range in.asked {
		in.answer(r, in.standing(ctx, r))
	}
}
