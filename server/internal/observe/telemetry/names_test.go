package telemetry

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gyrohq/gyro"
)

// TestNamesOfHandlers: the span of every handler for clients has a name.
func TestNamesOfHandlers(t *testing.T) {
	without := []string{
		"MapChange",            // the effect of a command publish, named so
		"CacheEmpty", "Survey", // of the node, without a client
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[gyro.Handlers]()) {
		if f.IsExported() && (names[f.Name] == "") != slices.Contains(without, f.Name) {
			t.Errorf("handler %s: the name of its span is %q", f.Name, names[f.Name])
		}
	}
}
