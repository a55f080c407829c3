package render_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/quote"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// quoted is a quote of testdata/quote/what-if.yaml.
func quoted(t *testing.T, customer, from, to string, contracts ...string) *quote.Result {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", "quote", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	s, err := scenario.Parse("what-if.yaml", read("what-if"))
	if err != nil {
		t.Fatal(err)
	}
	r := quote.Request{Customer: customer}
	for _, name := range contracts {
		c, err := contract.Parse(name, read(name))
		if err != nil {
			t.Fatal(err)
		}
		r.Contracts = append(r.Contracts, c)
	}
	if r.From, err = quote.ParseBound(from); err != nil {
		t.Fatal(err)
	}
	if r.To, err = quote.ParseBound(to); err != nil {
		t.Fatal(err)
	}
	q, log := quote.New(r), s.Log()
	b := meter.Block{At: log.Until}
	for i, x := range log.Statements {
		x.Fact.Seq = uint64(i + 1)
		b.Facts = append(b.Facts, x.Fact)
	}
	q.Facts(b)
	if err := q.Resolve(); err != nil {
		t.Fatal(err)
	}
	got, err := q.Result(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestQuotes(t *testing.T) {
	for name, r := range map[string]*quote.Result{
		"quote":       quoted(t, "acme", "2026-04-01", "2026-06-01", "committed", "plain"),
		"quote-own":   quoted(t, "acme", "2026-05-01", "2026-06-01"),
		"quote-short": quoted(t, "acme", "2026-04-01", "2026-06-01", "short"),
		"quote-none":  quoted(t, "云枢\u202e", "2026-05-01", "2026-06-01", "committed"),
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, name, func(o render.Options) string { return render.Quote(r, o) })
			coloured := render.Quote(r, render.Options{Colour: true})
			if !strings.Contains(coloured, "\x1b[1m") {
				t.Error("it has no colour")
			}
		})
	}
}
