package render

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/usage"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"acme":                   "acme",
		"云枢\u3000科技\u00a0A":      "云枢 科技 A",
		"a\u202eb\u2066c":        "a<U+202E>b<U+2066>c",
		"a\r\n\tb":               "a<U+000D><U+000A><U+0009>b",
		"\x1b[31mred":            "<U+001B>[31mred",
		"a\u200bb\ufeffc\u2060":  "a<U+200B>b<U+FEFF>c<U+2060>",
		"e\u0301":                "\u00e9",
		"\u1112\u1161\u11ab":     "한",
		"\u11ab":                 "<U+11AB>",
		"\u0301a":                "<U+0301>a",
		"z\u0323\u0302\u0303":    "\u1e93\u0302\u0303",
		"q\u0302\u0303\u0304":    "q\u0302\u0303<U+0304>",
		"❤\ufe0f":                "❤",
		"👍\U0001f3fd":            "👍<U+1F3FD>",
		"\xff":                   "\ufffd",
		"שלום":                   "שלום\u200e",
		"\U000e0041\ue000\u2028": "<U+E0041><U+E000><U+2028>",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean %+q = %+q, want %+q", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		w    int
		want []string
	}{
		{"", 5, []string{""}},
		{"one two three", 8, []string{"one two", "three"}},
		{"one two", 7, []string{"one two"}},
		{"abcdefghij kl", 4, []string{"abcd", "efgh", "ij", "kl"}},
		{"a  b", 2, []string{"a", "b"}},
		{"每行金额只舍入一次。", 8, []string{"每行金额", "只舍入一", "次。"}},
		{"每行金额，只舍", 8, []string{"每行金", "额，只舍"}},
		{"合计" + glued("0.03 CNY"), 10, []string{"合", "计" + glued("0.03 CNY")}},
		{"about " + glued("0.03 CNY") + " in", 10, []string{"about", glued("0.03 CNY"), "in"}},
		{glued("abc def gh"), 8, []string{glued("abc def"), "gh"}},
		{"共 " + glued("服务等级"), 9, []string{"共", glued("服务等级")}},
	} {
		if diff := cmp.Diff(c.want, wrap(c.text, c.w)); diff != "" {
			t.Errorf("wrap %q at %d (-want +got):\n%s", c.text, c.w, diff)
		}
	}
}

// Wrapping loses nothing but spaces, and no line is too wide.
func TestWrapKeepsEverything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab 账，单。（）é"))).Draw(rt, "text")
		w := rapid.IntRange(2, 20).Draw(rt, "width")
		lines := wrap(text, w)
		for _, l := range lines {
			if columns(l) > w {
				rt.Fatalf("%q is wider than %d", l, w)
			}
		}
		bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := strings.Join(lines, ""); bare(got) != bare(text) {
			rt.Fatalf("%q became %q", text, got)
		}
	})
}

func TestClipPadGroup(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{clip("abcdef", 6), "abcdef"},
		{clip("abcdefg", 6), "abcde…"},
		{clip("账单编号", 6), "账单…"},
		{clip("ab cdefg", 4), "ab…"},
		{pad("账单", 6, Left), "账单  "},
		{pad("账单", 6, Right), "  账单"},
		{group("1234567.8901"), "1,234,567.8901"},
		{group("-123456"), "-123,456"},
		{group("999"), "999"},
		{group("1333.333333…"), "1,333.333333…"},
		{group("1/3\x1b"), "1/3<U+001B>"},
		{group(""), ""},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// Neither a rest nor the whole hides behind rounding.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{{0, 7, "0%"}, {7, 7, "100%"}, {1, 3, "33.33%"}, {1, 2, "50.00%"}, {1, 1 << 40, "<0.01%"}, {1<<40 - 1, 1 << 40, ">99.99%"}} {
		if got := percent(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d = %s, want %s", c.part, c.whole, got, c.want)
		}
	}
}

// Every text that the code says has a Chinese one with the same places to fill in, and no Chinese text is left over.
func TestEveryTextIsTranslated(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || strings.HasPrefix(f, "messages") {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code += string(data)
	}
	said := regexp.MustCompile(`say\(("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(code, -1)
	if len(said) < 40 {
		t.Fatalf("only %d texts found", len(said))
	}
	for _, m := range said {
		english, err := strconv.Unquote(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if (Options{Language: Chinese}).say(english) == english {
			t.Errorf("no Chinese for %q", english)
		}
	}
	verb := regexp.MustCompile(`%.`)
	for english := range chineseContract {
		if chinese[english] != "" {
			t.Errorf("%q is translated twice", english)
		}
	}
	all := maps.Clone(chinese)
	maps.Copy(all, chineseContract)
	for english, zh := range all {
		if diff := cmp.Diff(verb.FindAllString(english, -1), verb.FindAllString(zh, -1)); diff != "" {
			t.Errorf("%q and %q are filled in differently", english, zh)
		}
	}
}

// The closed lists of reasons are explained, in both languages.
func TestEveryReasonIsExplained(t *testing.T) {
	codes := []string{
		contract.BadContract, contract.SecondSignature, contract.UnsupportedAmendment, contract.UnknownContract,
		contract.WrongCustomer, contract.OutsideTerm, contract.NoContract, contract.AmbiguousContract,
		string(price.OutsideTerm), string(price.UnsupportedMode), string(price.NoRate), string(price.NoRegion), string(price.NoServiceTier),
		occupancy.UnknownLease, occupancy.StopBeforeStart, occupancy.SecondStart, occupancy.AfterStop, occupancy.UnknownDevice,
		meter.ReasonOverlap, meter.ReasonSlowSource, meter.AssertionFailed, meter.ConflictingFact,
		string(usage.Undecodable), string(usage.WrongPartition), string(usage.SequenceConflict), string(usage.AheadOfTick), string(usage.BadSignature),
	}
	for _, code := range codes {
		for _, o := range []Options{{}, {Language: Chinese}} {
			if why, remedy := o.explain(code); why == code || why == "" || remedy == "" {
				t.Errorf("%s in %s: %q, %q", code, o.Language, why, remedy)
			}
		}
	}
	if why, remedy := (Options{}).explain("brand\x07new"); why != "brand<U+0007>new" || remedy != "" {
		t.Errorf("an unknown reason reads %q, %q", why, remedy)
	}
}
