package clients_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/clients"
)

// TestEveryHandlerIsSet: the server answers every event of the library, or has a reason here not to.
func TestEveryHandlerIsSet(t *testing.T) {
	without := []string{
		"Connected", "Unsubscribed", "Disconnected", // the server keeps nothing of a client by itself
		"Message", // send has no answer, and no backend to go to
		"Survey",  // the app answers it
	}
	h := reflect.ValueOf(clients.Handlers(func() *clients.Policy { return nil }))
	for i, f := range reflect.VisibleFields(reflect.TypeFor[gyro.Handlers]()) {
		if f.IsExported() && h.Field(i).IsNil() != slices.Contains(without, f.Name) {
			t.Errorf("handler %s: set is %v", f.Name, !h.Field(i).IsNil())
		}
	}
}
