package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

const (
	// requestTimeout bounds one request when the context allows longer. A server that syncs a batch
	// on a slow disk needs a second or two.
	requestTimeout = 10 * time.Second

	// Wait asks the leader at these intervals; publications of this Bus wake it at once.
	minPoll, maxPoll = 2 * time.Millisecond, 50 * time.Millisecond
)

// Bus implements bus.Bus on one connection.
type Bus struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	own    bool            // see ConnectOptions.Publisher
	dir    string          // of the server inside this process, "" for another
	stores context.Context // ends, with the cause, when the server inside this process cannot write a stream any more

	mu        sync.Mutex
	idle      []*cursor          // the one idle for longest first
	asked     map[*asked]bool    // requests in flight
	published chan struct{}      // closed and replaced by every publication of this Bus
	link      context.Context    // ends, and is replaced, when the connection breaks
	broken    context.CancelFunc // ends link
	closed    chan struct{}
	closeOnce sync.Once
}

var _ bus.Bus = (*Bus)(nil)

// ConnectOptions are for a server started elsewhere.
type ConnectOptions struct {
	Streams StreamOptions
	// ExistingStreams leaves the streams alone: who started the server has made them.
	ExistingStreams bool
	// Publisher is the last token of the one subject to which the permissions of this connection reach. It leaves the streams
	// alone, asks for the last message of that subject directly, and hears answers on an inbox of its own (InboxOf).
	Publisher string
	Access    Access
	// Link is told why the connection broke, and nil when it is there again; nil: nobody is.
	Link func(broken error)
	// NATS are other options of the client.
	NATS []nats.Option
}

// Connect dials the server at address and creates the streams, or checks those it finds. The server
// should run with "sync_interval: always"; see the package comment.
func Connect(ctx context.Context, address string, o ConnectOptions) (*Bus, error) {
	options, err := o.Access.options()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", redacted(address), err)
	}
	// A user that the server does not know for a while is tried again like a server that is away: a collector must outlive both.
	options = append(options, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())
	if o.Publisher != "" {
		options = append(options, nats.CustomInboxPrefix(InboxOf(o.Publisher)))
	}
	if o.Link != nil {
		options = append(options, watchLink(o.Link))
	}
	b, err := dial(address, append(options, o.NATS...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", redacted(address), o.Access.refused(err))
	}
	b.own = o.Publisher != ""
	if o.ExistingStreams || b.own {
		return b, nil
	}
	if err := b.ensureStreams(ctx, o.Streams); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// InboxOf begins the subjects on which a publisher hears answers: a node must not hear those of others.
func InboxOf(publisher string) string { return "_INBOX_" + publisher }

// redacted is a list of addresses without their passwords, for messages. One that cannot be read is not shown.
func redacted(list string) string {
	servers := strings.Split(list, ",")
	for i, s := range servers {
		if s = strings.TrimSpace(s); !strings.Contains(s, "://") {
			s = "nats://" + s // as the client does
		}
		if u, err := url.Parse(s); err == nil {
			servers[i] = u.Redacted()
		} else {
			servers[i] = "(not an address)"
		}
	}
	return strings.Join(servers, ",")
}

// dial connects without a reconnect buffer: a publication kept there could reach the log long after
// its caller was told that it failed.
func dial(address string, options ...nats.Option) (*Bus, error) {
	b := &Bus{stores: context.Background(), asked: map[*asked]bool{}, published: make(chan struct{}), closed: make(chan struct{})}
	b.link, b.broken = context.WithCancel(context.Background())
	base := []nats.Option{
		nats.Name("gpuhour"), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { b.disconnected() }),
	}
	var err error
	if b.nc, err = nats.Connect(address, append(append(base, options...), b.watchDenied)...); err != nil {
		return nil, err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		b.nc.Close()
		return nil, err
	}
	return b, nil
}

// watchLink tells of the connection what the client would keep to itself, beside what dial does about it.
func watchLink(link func(broken error)) nats.Option {
	return func(o *nats.Options) error {
		next := o.DisconnectedErrCB
		o.DisconnectedErrCB = func(nc *nats.Conn, err error) {
			next(nc, err)
			switch {
			case nc.IsClosed(): // by us
			case err == nil:
				link(errors.New("the NATS server ended the connection"))
			default:
				link(err)
			}
		}
		o.ReconnectedCB = func(*nats.Conn) { link(nil) }
		return nil
	}
}

// disconnected ends what waits on the connection that broke; see whileConnected.
func (b *Bus) disconnected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken()
	b.link, b.broken = context.WithCancel(context.Background())
}

// Close ends the connection. Reads in flight return ErrClosed, publications ErrAmbiguous as well.
func (b *Bus) Close() error {
	b.closeOnce.Do(func() {
		close(b.closed)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.idle {
			c.close()
		}
		b.nc.Close()
	})
	return nil
}

// Last implements bus.Bus.
func (b *Bus) Last(ctx context.Context, subject string) (bus.Message, error) {
	stream, err := bus.CheckSubject(subject)
	if err != nil {
		return bus.Message{}, err
	}
	if b.own {
		return b.direct(ctx, stream, subject)
	}
	return b.last(ctx, stream, subject)
}

// LastSeq implements bus.Bus. It asks for the last message, not for the stream's state, because the
// state runs ahead of the sync and into the middle of an atomic batch.
func (b *Bus) LastSeq(ctx context.Context, stream string) (uint64, error) {
	if err := bus.CheckStream(stream); err != nil {
		return 0, err
	}
	for {
		m, err := b.last(ctx, stream, ">")
		if !errors.Is(err, bus.ErrNotFound) {
			return m.Seq, err
		}
		state, err := b.state(ctx, stream)
		if err != nil || state.Msgs == 0 { // nothing yet, or all of it archived
			return state.LastSeq, err
		}
	}
}

// last reads the last message that matches filter through the stream's leader. (A direct get could
// be answered by a follower that is behind.)
func (b *Bus) last(ctx context.Context, stream, filter string) (bus.Message, error) {
	var answer struct {
		apiError
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	request := map[string]string{"last_by_subj": filter}
	err := b.api(ctx, "STREAM.MSG.GET."+stream, request, &answer)
	if isCode(err, jetstream.JSErrCodeMessageNotFound) {
		return bus.Message{}, bus.ErrNotFound
	}
	if err != nil {
		return bus.Message{}, fmt.Errorf("read last of %s in %s: %w", filter, stream, err)
	}
	m := bus.Message{
		Stream: stream, Seq: answer.Message.Seq, Subject: answer.Message.Subject,
		Data: answer.Message.Data, Time: answer.Message.Time.UTC(),
	}
	if len(answer.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(answer.Message.Header)
		if err != nil {
			return bus.Message{}, fmt.Errorf("read last of %s in %s: headers: %w", filter, stream, err)
		}
		m.Header = userHeader(header)
	}
	return m, nil
}

func (b *Bus) state(ctx context.Context, stream string) (jetstream.StreamState, error) {
	var answer struct {
		apiError
		State jetstream.StreamState `json:"state"`
	}
	if err := b.api(ctx, "STREAM.INFO."+stream, nil, &answer); err != nil {
		return jetstream.StreamState{}, fmt.Errorf("read state of %s: %w", stream, err)
	}
	return answer.State, nil
}

// Wait implements bus.Bus.
func (b *Bus) Wait(ctx context.Context, stream string, after uint64) error {
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		b.mu.Lock()
		published := b.published
		b.mu.Unlock()
		if last, err := b.LastSeq(ctx, stream); err != nil || last > after {
			return err
		}
		if err := b.pause(ctx, pause, published); err != nil {
			return err
		}
	}
}

// pause returns early when early is closed, with an error when ctx or the bus ends.
func (b *Bus) pause(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-early:
	case <-timer.C:
	case <-b.closed:
		return bus.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (b *Bus) alive(ctx context.Context) error {
	select {
	case <-b.closed:
		return bus.ErrClosed
	default:
		return ctx.Err()
	}
}

// writable is alive for a publication.
func (b *Bus) writable(ctx context.Context) error {
	if err := b.alive(ctx); err != nil {
		return err
	}
	return context.Cause(b.stores)
}

// wake ends the pauses of Wait.
func (b *Bus) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.published)
	b.published = make(chan struct{})
}

// apiError is embedded in every answer of the JetStream API.
type apiError struct {
	Error *jetstream.APIError `json:"error"`
}

func (e apiError) failure() *jetstream.APIError { return e.Error }

// api asks the JetStream API and decodes its answer, or returns its error.
func (b *Bus) api(ctx context.Context, verb string, request any, answer interface{ failure() *jetstream.APIError }) error {
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return err
		}
	}
	reply, err := b.request(ctx, &nats.Msg{Subject: "$JS.API." + verb, Data: data})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("answer of %s: %w", verb, err)
	}
	if e := answer.failure(); e != nil {
		return e
	}
	return nil
}

// request returns ErrClosed after Close and the context's error when that ended.
func (b *Bus) request(ctx context.Context, m *nats.Msg) (reply *nats.Msg, err error) {
	err = b.askFor(ctx, m.Subject, func(ctx context.Context) error {
		return b.whileConnected(ctx, func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			reply, err = b.nc.RequestMsgWithContext(ctx, m)
			return err
		})
	})
	return reply, b.explain(ctx, err)
}

// errBroke ends what waits for an answer that cannot come any more; the client would let it wait.
var errBroke = errors.New("the connection to the NATS server broke before its answer")

// whileConnected ends f's context when the connection breaks.
func (b *Bus) whileConnected(ctx context.Context, f func(context.Context) error) error {
	b.mu.Lock()
	link := b.link
	b.mu.Unlock()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(link, cancel)()
	err := f(limited)
	if err != nil && link.Err() != nil && ctx.Err() == nil && !b.nc.IsClosed() {
		return errBroke
	}
	return err
}

// tell is request for a message that is to be stored. A stream that could not be written leaves it without an answer.
func (b *Bus) tell(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.stores, cancel)()
	reply, err := b.request(limited, m)
	if err != nil && b.stores.Err() != nil {
		err = context.Cause(b.stores)
	}
	return reply, err
}

func (b *Bus) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrConnectionClosed) || b.nc.IsClosed():
		return bus.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("no stream of the NATS server takes this: its leader may be changing; where there is none, run a gpuhour service there once, which makes the streams, or look at the imports of the account: %w", err)
	case errors.Is(err, nats.ErrReconnectBufExceeded): // there is no buffer: see dial
		if why := b.nc.LastError(); why != nil && !errors.Is(why, nats.ErrConnectionClosed) {
			return fmt.Errorf("not connected to the NATS server (%w), and trying again: %w", why, err)
		}
		return fmt.Errorf("not connected to the NATS server, and trying again: %w", err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: the server's max_payload is %d bytes: %w", bus.ErrTooLarge, b.nc.MaxPayload(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from the NATS server within %s: is JetStream on, and has its stream a leader?: %w", requestTimeout, err)
	}
	return err
}

func isCode(err error, code jetstream.ErrorCode) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && e.ErrorCode == code
}
