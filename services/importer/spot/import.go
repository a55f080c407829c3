package spot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Import is the facts of a market's logs and what was counted on the way.
type Import struct {
	Facts     []fact.Fact
	Ticks     int
	Leases    int
	Reclaimed int    // leases among them that the provider ended
	Entries   int    // of the histories
	Lines     int    // of the log
	Left      []Left // entries and lines that became no fact and lent none an instant: by file and line
	order     []place
}

// Left is an entry or a line that became no fact.
type Left struct {
	File string
	Line int
	Why  string
}

// String is "log.out:8: nothing was created".
func (l Left) String() string { return fmt.Sprintf("%s:%d: %s", l.File, l.Line, l.Why) }

// place is where a fact stands.
type place struct {
	at   span.Second
	rank int
	fact int // its index before sorting
}

// Ranks of what happens at one instant.
const (
	rankTick = iota
	rankStop
	rankStart
)

// Read turns price histories and an availability log into facts. An error is a file that cannot be read at all.
func Read(histories []File, log File) (*Import, error) {
	im := &Import{}
	if err := im.ticks(histories); err != nil {
		return nil, err
	}
	if err := im.leases(log); err != nil {
		return nil, err
	}
	slices.SortFunc(im.Left, func(a, b Left) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	slices.SortFunc(im.order, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank), cmp.Compare(a.fact, b.fact))
	})
	sorted := make([]fact.Fact, len(im.order))
	for i, p := range im.order {
		sorted[i] = im.Facts[p.fact]
		if err := sorted[i].Validate(); err != nil {
			return nil, fmt.Errorf("fact %s: %w", sorted[i].Key, err)
		}
	}
	im.Facts, im.order = sorted, nil
	return im, nil
}

func (im *Import) add(at span.Second, rank int, key string, body fact.Body) {
	im.order = append(im.order, place{at, rank, len(im.Facts)})
	im.Facts = append(im.Facts, fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body})
}

func (im *Import) leave(file string, line int, why string) {
	im.Left = append(im.Left, Left{file, line, why})
}
