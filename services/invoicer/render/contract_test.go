package render_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/text/width"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// TestRandomContractsFit: every contract and every change is shown, no line of it wider than the page, in both languages.
func TestRandomContractsFit(t *testing.T) {
	var before *contract.Contract
	for seed := range uint64(300) {
		choose := rand.New(rand.NewPCG(seed, 0)).IntN
		c, err := contract.Parse("c.yaml", []byte(random.Contract(choose)))
		if err != nil {
			t.Fatal(err)
		}
		o := render.Options{Width: 40 + choose(80), Language: []render.Language{render.English, render.Chinese}[choose(2)]}
		text := render.Contract(c, o)
		if before != nil {
			text += render.ContractChanges(contract.Compare(before, c), contract.Unamendable(before, c), o)
		}
		for line := range strings.Lines(text) {
			if n := wide(strings.TrimRight(line, "\n")); n > o.Width {
				t.Fatalf("seed %d: %d columns of %d: %s", seed, n, o.Width, line)
			}
		}
		for _, r := range c.Rates {
			if !strings.Contains(text, strings.Fields(r.SKU)[0]) {
				t.Errorf("seed %d: %s is not shown", seed, r.SKU)
			}
		}
		before = c
	}
}

// TestChineseContractsHoldNoEnglish: a word of the contract language stands on no Chinese page, where it is no name of the contract's own.
func TestChineseContractsHoldNoEnglish(t *testing.T) {
	english := regexp.MustCompile(`\b(daily|Mon|Tue|Wed|Thu|Fri|Sat|Sun|on_demand|spot|covered|index|lock|reclaimed|within|always|final|gpu|level|quantity|` +
		`graduated|volume|prorata|clawback|none|advance|suspended|stopped|running|true|false|[1-9][0-9]*[dhms])\b`)
	var before *contract.Contract
	for seed := range uint64(300) {
		choose := rand.New(rand.NewPCG(seed, 1)).IntN
		c, err := contract.Parse("c.yaml", []byte(random.Contract(choose)))
		if err != nil {
			t.Fatal(err)
		}
		o := render.Options{Width: 100, Language: render.Chinese}
		text := render.Contract(c, o)
		if before != nil {
			text += render.ContractChanges(contract.Compare(before, c), contract.Unamendable(before, c), o)
		}
		for line := range strings.Lines(text) {
			if word := english.FindString(line); word != "" {
				t.Fatalf("seed %d: %q in %s", seed, word, line)
			}
		}
		before = c
	}
}

// wide is the columns of a text without marks.
func wide(s string) int {
	n := 0
	for _, r := range s {
		n++
		if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
			n++
		}
	}
	return n
}
