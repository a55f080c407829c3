package contract_test

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
)

// TestBeforeForgetsWhatWasStatedLater: a cut that is looked at again after an amendment and another contract were stated
// finds the register of its own time, and the register of now stays what it is.
func TestBeforeForgetsWhatWasStatedLater(t *testing.T) {
	r := contract.NewRegister()
	other := strings.ReplaceAll(strings.ReplaceAll(small, "c1", "c2"), "4.5/gpu-month", "9/gpu-month")
	for _, f := range []fact.Fact{
		{Seq: 3, Key: "a", Body: &fact.ContractSigned{Contract: "c1", Customer: "阿克梅", Document: small}},
		{Seq: 5, Key: "b", Body: &fact.ContractAmended{Contract: "c1", Effective: 1767225600, Document: strings.ReplaceAll(small, "4.5", "5")}},
		{Seq: 7, Key: "c", Body: &fact.ContractSigned{Contract: "c2", Customer: "阿克梅", Document: other}},
	} {
		r.Apply(f)
	}
	for _, c := range []struct {
		before uint64
		want   string
	}{{3, ""}, {4, "c1@3"}, {5, "c1@3"}, {6, "c1@5"}, {8, "c1@5 c2@7"}} {
		if got := versions(r.Before(c.before)); got != c.want {
			t.Errorf("before %d: %q, want %q", c.before, got, c.want)
		}
	}
	if got := versions(r); got != "c1@5 c2@7" {
		t.Errorf("the register itself is now %q", got)
	}
}

// TestADocumentIsReadOnce: a register that is folded again, by another amendment or for an earlier position, holds the
// contracts it has read, and is not copied where nothing was stated since. Reading opens the tz database each time.
func TestADocumentIsReadOnce(t *testing.T) {
	r := contract.NewRegister()
	r.Apply(fact.Fact{Seq: 3, Key: "a", Body: &fact.ContractSigned{Contract: "c1", Customer: "阿克梅", Document: small}})
	first, _ := r.Version(3)
	r.Apply(fact.Fact{Seq: 5, Key: "b", Body: &fact.ContractAmended{Contract: "c1", Effective: 1767225600, Document: strings.ReplaceAll(small, "4.5", "5")}})
	again, _ := r.Version(3)
	early, _ := r.Before(5).InForce("c1", first.From)
	if again.Contract != first.Contract || early.Contract != first.Contract {
		t.Error("the document was read again")
	}
	if r.Before(6) != r || r.Before(5) == r {
		t.Error("copied where nothing was stated since, or not copied where something was")
	}
}

func versions(r *contract.Register) string {
	var out []string
	for _, v := range r.Latest() {
		out = append(out, v.Contract.ID+"@"+string(rune('0'+v.Seq)))
	}
	return strings.Join(out, " ")
}
