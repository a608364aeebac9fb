package effect_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/effect"
)

const command = effect.Completes | effect.Concurrent

// traits of all effects.
var traits = map[effect.Effect]effect.Traits{
	&effect.Connecting{}:    effect.Completes | effect.Begins | effect.Instant,
	&effect.Connected{}:     effect.Instant,
	&effect.Subscribing{}:   effect.Completes | effect.Begins | effect.Instant,
	&effect.Attach{}:        effect.Completes | effect.Begins | effect.Continues | effect.Instant,
	&effect.Page{}:          effect.Completes | effect.Begins | effect.Continues | effect.Instant,
	&effect.Detach{}:        effect.Completes | effect.Instant,
	&effect.Undo{}:          effect.Continues | effect.Instant,
	&effect.Join{}:          0,
	&effect.Publish{}:       command,
	&effect.Presence{}:      command,
	&effect.PresenceStats{}: command,
	&effect.History{}:       command,
	&effect.RPC{}:           command,
	&effect.Message{}:       command,
	&effect.Refresh{}:       effect.Completes,
	&effect.SubRefresh{}:    effect.Completes,
	&effect.Track{}:         effect.Completes | effect.Instant,
	&effect.Renew{}:         effect.Instant,
	&effect.Close{}:         effect.Instant,
}

// Each effect of the package has its traits here, and these go together.
func TestTraits(t *testing.T) {
	var known []string
	for e, want := range traits {
		typ := reflect.TypeOf(e).Elem()
		known = append(known, typ.Name())
		got := e.Traits()
		if got != want {
			t.Errorf("%s: traits %b, want %b", typ.Name(), got, want)
		}
		if got.Has(effect.Begins) && !got.Has(effect.Completes) {
			t.Errorf("%s begins what never follows", typ.Name())
		}
		if got.Has(effect.Concurrent) && got&(effect.Begins|effect.Continues|effect.Instant) != 0 {
			t.Errorf("%s has an order, so it cannot be concurrent", typ.Name())
		}
		if _, awaited := typ.FieldByName("ID"); awaited != got.Has(effect.Completes) {
			t.Errorf("%s: it completes a command, or has no ID", typ.Name())
		}
	}
	slices.Sort(known)
	if declared := declaredEffects(t); !slices.Equal(known, declared) {
		t.Errorf("the package declares %v, the test knows %v", declared, known)
	}
}

// declaredEffects returns the types of the package that have a method Execute.
func declaredEffects(t *testing.T) []string {
	names := make(map[string]bool)
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Execute" {
				names[f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// reluctant is an executor that does nothing inline.
type reluctant struct{ called []string }

func (r *reluctant) say(name string, inline bool) bool {
	r.called = append(r.called, name)
	return !inline
}

func (r *reluctant) Connecting(_ *effect.Connecting, inline bool) bool {
	return r.say("Connecting", inline)
}
func (r *reluctant) Connected(inline bool) bool { return r.say("Connected", inline) }
func (r *reluctant) Subscribing(_ *effect.Subscribing, inline bool) bool {
	return r.say("Subscribing", inline)
}
func (r *reluctant) Attach(_ *effect.Attach, inline bool) bool { return r.say("Attach", inline) }
func (r *reluctant) Detach(_ []effect.DetachItem, inline bool) (bool, error) {
	return r.say("Detach", inline), nil
}
func (r *reluctant) Page(_ *effect.Page, inline bool) bool        { return r.say("Page", inline) }
func (r *reluctant) Renew(_ []effect.RenewItem, inline bool) bool { return r.say("Renew", inline) }
func (r *reluctant) Track(_ *effect.Track, inline bool) bool      { return r.say("Track", inline) }
func (r *reluctant) Close(_ *effect.Close, inline bool) bool      { return r.say("Close", inline) }
func (r *reluctant) Join(*effect.Join)                            { r.say("Join", false) }
func (r *reluctant) Publish(*effect.Publish)                      { r.say("Publish", false) }
func (r *reluctant) Presence(*effect.Presence)                    { r.say("Presence", false) }
func (r *reluctant) PresenceStats(*effect.PresenceStats)          { r.say("PresenceStats", false) }
func (r *reluctant) History(*effect.History)                      { r.say("History", false) }
func (r *reluctant) RPC(*effect.RPC)                              { r.say("RPC", false) }
func (r *reluctant) Message(*effect.Message)                      { r.say("Message", false) }
func (r *reluctant) Refresh(*effect.Refresh)                      { r.say("Refresh", false) }
func (r *reluctant) SubRefresh(*effect.SubRefresh)                { r.say("SubRefresh", false) }

// Each effect is done by the executor's method of its name. Those that are tried inline
// can be refused there.
func TestExecute(t *testing.T) {
	for e := range traits {
		name := reflect.TypeOf(e).Elem().Name()
		if name == "Undo" {
			name = "Detach"
		}
		for _, inline := range []bool{false, true} {
			var x reluctant
			done := e.Execute(&x, inline)
			if !slices.Equal(x.called, []string{name}) {
				t.Errorf("%s calls %v", name, x.called)
			}
			if want := !inline || !e.Traits().Has(effect.Instant); done != want {
				t.Errorf("%T, inline %v: done is %v", e, inline, done)
			}
		}
	}
}
