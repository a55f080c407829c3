package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

const (
	// pullBytes bounds one pull, so that a read of large messages does not fill the memory.
	pullBytes = 8 << 20

	// idleConsumer is when the server forgets the consumer of a cursor that nobody reads on.
	idleConsumer = time.Minute
)

// cursor is a position in a stream and, once read from, the consumer in the server that stands there.
// One goroutine uses it at a time.
type cursor struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  string
	filter  string // "" for all
	after   uint64 // the last sequence read
	settled uint64 // the leader has synced everything up to here

	sub      *nats.Subscription
	inbox    string
	consumer string
	pulls    int
	count    uint64 // messages the consumer delivered
}

var errConsumerGone = errors.New("the consumer is gone")

// pull returns what the server has above c.after, at most max messages. It does not move c.after. The
// server forgets a consumer that was idle, restarted or lost its node; then it is made anew.
func (c *cursor) pull(ctx context.Context, max int) ([]bus.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if c.sub != nil {
		messages, err := c.pullOnce(ctx, max)
		if !errors.Is(err, errConsumerGone) {
			return messages, err
		}
		c.close()
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	return c.pullOnce(ctx, max)
}

func (c *cursor) open(ctx context.Context) error {
	config := jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       c.after + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     c.filter,
		InactiveThreshold: idleConsumer,
		MemoryStorage:     true,
		Replicas:          1,
	}
	consumer, err := c.js.CreateConsumer(ctx, c.stream, config)
	if err != nil {
		return fmt.Errorf("open cursor: %w", err)
	}
	c.consumer, c.count, c.inbox = consumer.CachedInfo().Name, 0, c.nc.NewInbox()
	if c.sub, err = c.nc.SubscribeSync(c.inbox + ".*"); err != nil {
		return err
	}
	return c.sub.SetPendingLimits(-1, -1) // a pull bounds itself
}

// close leaves nothing behind; the server would clean up later by itself.
func (c *cursor) close() {
	if c.sub == nil {
		return
	}
	// Both fail only without a connection, and then there is nothing to clean up.
	_ = c.sub.Unsubscribe()
	_ = c.nc.PublishRequest("$JS.API.CONSUMER.DELETE."+c.stream+"."+c.consumer, c.nc.NewInbox(), nil)
	c.sub = nil
}

// pullOnce ends with max messages or with the server's word that there are no more. Every delivery
// is numbered by the consumer, so that one lost on the way is noticed.
func (c *cursor) pullOnce(ctx context.Context, max int) ([]bus.Message, error) {
	c.pulls++
	reply := c.inbox + "." + strconv.Itoa(c.pulls)
	request, err := json.Marshal(map[string]any{"batch": max, "max_bytes": pullBytes, "no_wait": true})
	if err != nil {
		return nil, err
	}
	if err := c.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+c.stream+"."+c.consumer, reply, request); err != nil {
		return nil, err
	}
	var out []bus.Message
	for len(out) < max {
		m, err := c.sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, fmt.Errorf("%w: %w", errConsumerGone, err)
		}
		if err != nil {
			return nil, err
		}
		if m.Reply == "" && m.Header.Get("Status") != "" {
			if m.Subject != reply { // the end of an earlier pull that had all it asked for
				continue
			}
			return out, ended(m.Header)
		}
		message, count, err := decode(m)
		if err != nil {
			return nil, err
		}
		if c.count++; count != c.count || message.Seq <= c.after {
			return nil, fmt.Errorf("delivery %d is message %d, after delivery %d: one was lost on the way", count, message.Seq, c.count-1)
		}
		out = append(out, message)
	}
	return out, nil
}

// ended tells a pull that is served from one that cannot be.
func ended(h nats.Header) error {
	status, description := h.Get("Status"), h.Get("Description")
	switch {
	case status == "404", status == "408": // no more
		return nil
	case description == "Message Size Exceeds MaxBytes", description == "Batch Completed":
		return nil
	case status == "409": // deleted, leadership change, shutdown
		return fmt.Errorf("%w: %s %s", errConsumerGone, status, description)
	}
	return fmt.Errorf("the server answers %q %q", status, description)
}

// decode returns a message and the number of its delivery.
func decode(m *nats.Msg) (bus.Message, uint64, error) {
	about, err := m.Metadata()
	if err != nil {
		return bus.Message{}, 0, err
	}
	return bus.Message{
		Stream: about.Stream, Seq: about.Sequence.Stream, Subject: m.Subject,
		Header: userHeader(m.Header), Data: m.Data, Time: about.Timestamp.UTC(),
	}, about.Sequence.Consumer, nil
}
