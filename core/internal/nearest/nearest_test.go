package nearest_test

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
)

func TestOf(t *testing.T) {
	known := []string{"sku", "on_demand", "region", "service_tier", "dedicated"}
	for word, want := range map[string]string{
		"on_demnad":                "on_demand",
		"ksu":                      "sku",
		"Region":                   "region",
		"skus":                     "sku",
		"service-tier":             "service_tier",
		"dedicated":                "dedicated",
		"price":                    "",
		"":                         "",
		strings.Repeat("a", 1<<20): "",
	} {
		got, ok := nearest.Of(word, known)
		if got != want || ok != (want != "") {
			t.Errorf("Of(%.20q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}
