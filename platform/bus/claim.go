package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// claimAttempts bounds how often a claim is published while its outcome stays unknown.
const claimAttempts = 3

// Claim publishes p, which must carry an expectation, and settles every outcome: it returns the
// sequence of p whether this call stored it, an earlier try did, or another process published the
// same message (same subject, id and data) first. It is safe to publish again after an unknown
// outcome because the expectation lets at most one of the tries in.
//
// Errors: ErrConflict when another message holds the place; ErrAmbiguous when the log did not answer
// often enough to tell, then call Claim again with the same p.
func Claim(ctx context.Context, b Bus, p Publication) (seq uint64, err error) {
	return claim(ctx, b, []Publication{p}, func() (uint64, error) { return b.Publish(ctx, p) })
}

// ClaimBatch is Claim for an atomic batch, at least one of whose messages carries an expectation. It
// returns the batch's last sequence. A batch is adopted only when every message of it is there, side
// by side: a claim repeated with another invoice number is a conflict.
func ClaimBatch(ctx context.Context, b Bus, ps []Publication) (last uint64, err error) {
	return claim(ctx, b, ps, func() (uint64, error) { return b.PublishBatch(ctx, ps) })
}

func claim(ctx context.Context, b Bus, ps []Publication, publish func() (uint64, error)) (uint64, error) {
	if !anyExpects(ps) {
		return 0, fmt.Errorf("%w: a claim needs an expectation", ErrInvalid)
	}
	for attempt := 1; ; attempt++ {
		last, err := publish()
		if err == nil || !errors.Is(err, ErrConflict) && !errors.Is(err, ErrAmbiguous) {
			return last, err
		}
		last, resolveErr := resolve(ctx, b, ps)
		switch {
		case resolveErr == nil:
			return last, nil
		case errors.Is(resolveErr, ErrConflict):
			return 0, fmt.Errorf("claim: %w", resolveErr)
		case !errors.Is(resolveErr, ErrNotFound):
			return 0, fmt.Errorf("claim %s: %w: %w: %w", ps[0].Subject, ErrAmbiguous, resolveErr, err)
		case attempt == claimAttempts:
			return 0, fmt.Errorf("claim %s, %d attempts: %w", ps[0].Subject, attempt, err)
		}
	}
}

func anyExpects(ps []Publication) bool {
	for _, p := range ps {
		if p.ExpectLast != nil {
			return true
		}
	}
	return false
}

// resolve looks for ps in the log. It returns the last sequence when they are all there,
// a *ConflictError when another message took a place they expect, and ErrNotFound when all
// expectations still hold.
func resolve(ctx context.Context, b Bus, ps []Publication) (last uint64, err error) {
	var conflict *ConflictError
	for i, p := range ps {
		if p.ExpectLast == nil {
			continue
		}
		m, err := b.Last(ctx, p.Subject)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, err
		}
		if m.Seq == *p.ExpectLast { // a subject without messages has the zero Seq
			continue
		}
		if isSame(m, p) && m.Seq > uint64(i) {
			first := m.Seq - uint64(i)
			if ok, err := isStored(ctx, b, ps, m, first); err != nil {
				return 0, err
			} else if ok {
				return first + uint64(len(ps)) - 1, nil
			}
		}
		if conflict == nil {
			conflict = &ConflictError{Subject: p.Subject, Expected: *p.ExpectLast, Actual: &m.Seq}
		}
	}
	if conflict != nil {
		return 0, conflict
	}
	return 0, ErrNotFound
}

// isStored reports whether the messages from first on are ps, where m is known to be one of them.
func isStored(ctx context.Context, b Bus, ps []Publication, m Message, first uint64) (bool, error) {
	if len(ps) == 1 {
		return true, nil
	}
	for after := first - 1; after < first-1+uint64(len(ps)); {
		at := int(after - (first - 1))
		messages, err := b.Read(ctx, m.Stream, after, len(ps)-at)
		if err != nil {
			return false, err
		}
		if len(messages) == 0 {
			return false, nil // the stream ends inside: not our batch, which would be whole
		}
		for i, m := range messages {
			if !isSame(m, ps[at+i]) {
				return false, nil
			}
		}
		after = messages[len(messages)-1].Seq
	}
	return true, nil
}

// isSame compares key and content. Usage and ticks carry no id: theirs is in the data.
func isSame(m Message, p Publication) bool {
	return m.Subject == p.Subject && m.Header[HeaderID] == p.Header[HeaderID] && bytes.Equal(m.Data, p.Data)
}
