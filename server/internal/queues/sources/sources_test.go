package sources

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestTypes: each type of the configuration has a section, a source, a check of required keys, and a configuration in
// docs/consumers.md.
func TestTypes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/consumers.md")
	if err != nil {
		t.Fatal(err)
	}
	consumer := reflect.TypeFor[config.Consumer]()
	sections := make(map[string]reflect.Type)
	for i := range consumer.NumField() {
		if f := consumer.Field(i); f.Type.Kind() == reflect.Struct {
			sections[f.Tag.Get("key")] = f.Type
		}
	}
	of, _ := consumer.FieldByName("Type")
	names := strings.Split(of.Tag.Get("enum"), "|")
	if len(names) != len(sections) || len(names) != len(types) {
		t.Errorf("there are %d types, %d sections and %d sources", len(names), len(sections), len(types))
	}
	for _, typ := range names {
		section, source := sections[typ], types[typ]
		if section == nil || source.open == nil || source.system == "" {
			t.Errorf("%s: section %v, source %+v", typ, section, source)
			continue
		}
		var c config.Consumer
		if _, has := section.FieldByName("PublicationDataMode"); has != (source.mode != nil) {
			t.Errorf("%s: the section has a mode: %v", typ, has)
		} else if has && !sameSection(&c, typ, source.mode(&c)) {
			t.Errorf("%s: the mode is of another section", typ)
		}
		cfg := config.DefaultConfig()
		cfg.Consumers = []config.Consumer{{Name: "c", Enabled: true, Type: typ}}
		if err := cfg.Validate(); !strings.Contains(fmt.Sprint(err), "consumers[0](c)."+typ+".") {
			t.Errorf("%s: nothing is required: %v", typ, err)
		}
		if !strings.Contains(string(page), fmt.Sprintf("%q: {", typ)) {
			t.Errorf("docs/consumers.md has no %s", typ)
		}
	}
}

// sameSection tells whether a mode is in the section of a type.
func sameSection(c *config.Consumer, typ string, mode *config.PublicationDataMode) bool {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == typ {
			return v.Field(i).FieldByName("PublicationDataMode").Addr().Interface() == any(mode)
		}
	}
	return false
}
