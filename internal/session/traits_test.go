package session_test

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

	"github.com/gyrohq/gyro/internal/session"
)

const command = session.Completes | session.Concurrent

// traits of all effects.
var traits = map[session.Effect]session.Traits{
	&session.Connecting{}:    session.Completes | session.Begins | session.Instant,
	&session.Connected{}:     session.Instant,
	&session.Subscribing{}:   session.Completes | session.Begins | session.Instant,
	&session.Attach{}:        session.Completes | session.Begins | session.Continues | session.Instant,
	&session.Detach{}:        session.Completes | session.Instant,
	&session.Undo{}:          session.Continues | session.Instant,
	&session.Join{}:          0,
	&session.Publish{}:       command,
	&session.Presence{}:      command,
	&session.PresenceStats{}: command,
	&session.History{}:       command,
	&session.RPC{}:           command,
	&session.Message{}:       command,
	&session.Refresh{}:       session.Completes,
	&session.SubRefresh{}:    session.Completes,
	&session.Renew{}:         session.Instant,
	&session.Close{}:         session.Instant,
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
		if got.Has(session.Begins) && !got.Has(session.Completes) {
			t.Errorf("%s begins what never follows", typ.Name())
		}
		if got.Has(session.Concurrent) && got&(session.Begins|session.Continues|session.Instant) != 0 {
			t.Errorf("%s has an order, so it cannot be concurrent", typ.Name())
		}
		if _, unawaited := typ.FieldByName("unawaited"); unawaited == got.Has(session.Completes) {
			t.Errorf("%s: it completes or is not awaited, one of both", typ.Name())
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

func (r *reluctant) Connecting(_ *session.Connecting, inline bool) bool {
	return r.say("Connecting", inline)
}
func (r *reluctant) Connected(inline bool) bool { return r.say("Connected", inline) }
func (r *reluctant) Subscribing(_ *session.Subscribing, inline bool) bool {
	return r.say("Subscribing", inline)
}
func (r *reluctant) Attach(_ *session.Attach, inline bool) bool { return r.say("Attach", inline) }
func (r *reluctant) Detach(_ []session.DetachItem, inline bool) (bool, error) {
	return r.say("Detach", inline), nil
}
func (r *reluctant) Renew(_ []session.RenewItem, inline bool) bool { return r.say("Renew", inline) }
func (r *reluctant) Close(_ *session.Close, inline bool) bool      { return r.say("Close", inline) }
func (r *reluctant) Join(*session.Join)                            { r.say("Join", false) }
func (r *reluctant) Publish(*session.Publish)                      { r.say("Publish", false) }
func (r *reluctant) Presence(*session.Presence)                    { r.say("Presence", false) }
func (r *reluctant) PresenceStats(*session.PresenceStats)          { r.say("PresenceStats", false) }
func (r *reluctant) History(*session.History)                      { r.say("History", false) }
func (r *reluctant) RPC(*session.RPC)                              { r.say("RPC", false) }
func (r *reluctant) Message(*session.Message)                      { r.say("Message", false) }
func (r *reluctant) Refresh(*session.Refresh)                      { r.say("Refresh", false) }
func (r *reluctant) SubRefresh(*session.SubRefresh)                { r.say("SubRefresh", false) }

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
			if want := !inline || !e.Traits().Has(session.Instant); done != want {
				t.Errorf("%T, inline %v: done is %v", e, inline, done)
			}
		}
	}
}
