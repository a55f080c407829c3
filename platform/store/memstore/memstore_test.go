package memstore_test

import (
	"testing"

	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/platform/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New() })
}
