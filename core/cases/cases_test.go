package cases_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
)

func parse(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	data, err := cases.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse(name, data)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	return s
}

// GOLDEN=rewrite writes the expect block of every file that fails anew; the numbers are then reviewed as a difference.
func TestCases(t *testing.T) {
	for _, name := range cases.List() {
		t.Run(name, func(t *testing.T) {
			s := parse(t, name)
			r, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			found := s.Check(r)
			if os.Getenv("GOLDEN") == "rewrite" && len(found) > 0 {
				if err := os.WriteFile(name, s.Rewrite(r), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, d := range found {
				t.Error(d)
			}
			if len(s.Expect) == 0 {
				t.Error("the file expects nothing")
			}
		})
	}
}

// What is known by a cut may arrive in any order and more than once: every case must end the same.
func TestCasesInDisorder(t *testing.T) {
	for _, name := range cases.List() {
		t.Run(name, func(t *testing.T) {
			s := parse(t, name)
			r, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(3) {
				pick := rand.New(rand.NewPCG(seed, 1)).IntN
				again, err := s.RunLog(scenario.Disorder(s.Log(), cuts(r), pick))
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range s.Check(again) {
					t.Errorf("seed %d: %v", seed, d)
				}
			}
		})
	}
}

func cuts(r *replay.Result) []span.Second {
	var out []span.Second
	for i := range r.Outcomes {
		for _, c := range r.Outcomes[i].Cuts {
			out = append(out, c.At)
		}
	}
	return out
}
