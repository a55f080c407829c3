package calendar

import (
	"time"

	"github.com/gpuhour/gpuhour/core/span"
)

// Clock is what a local clock shows at an instant.
type Clock struct {
	Date   Date        // by the clock: where a midnight happens twice it shows the old date again, unlike DateOf
	Second int64       // of the day by the clock, 0 to 86,399
	Until  span.Second // when the clock jumps next; span.Open for never
}

// Clock reads the local clock at t.
func (z Zone) Clock(t span.Second) Clock {
	s := z.stretch(t)
	local := int64(t) + s.offset
	return Clock{dateOf(time.Unix(local, 0).UTC()), mod(local, secondsPerDay), s.to}
}
