package tagsfilter

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/protocol"
)

// raceEnabled is set under the race detector, which allocates on its own.
var raceEnabled bool

type (
	N    = protocol.FilterNode
	tags = map[string]string
)

func compile(t testing.TB, n *N) *Filter {
	t.Helper()
	f, err := Compile(n)
	if err != nil {
		t.Fatalf("%s: %v", text(n), err)
	}
	return f
}

func text(n *N) string {
	if n == nil {
		return "null"
	}
	b, _ := n.AppendJSON(nil)
	return string(b)
}

// TestComparisons has every comparison.
func TestComparisons(t *testing.T) {
	missing := tags{"other": "a"}
	for _, test := range []struct {
		filter N
		tags   tags
		want   bool
	}{
		{N{Cmp: "eq", Val: "a"}, tags{"k": "a"}, true},
		{N{Cmp: "eq", Val: "a"}, tags{"k": "A"}, false},
		{N{Cmp: "eq", Val: "a"}, tags{"k": ""}, false},
		{N{Cmp: "eq", Val: "a"}, missing, false},
		{N{Cmp: "neq", Val: "a"}, tags{"k": "a"}, false},
		{N{Cmp: "neq", Val: "a"}, tags{"k": "b"}, true},
		{N{Cmp: "neq", Val: "a"}, missing, true},
		{N{Cmp: "in", Vals: []string{"a", "b"}}, tags{"k": "b"}, true},
		{N{Cmp: "in", Vals: []string{"a", "b"}}, tags{"k": "c"}, false},
		{N{Cmp: "in", Vals: []string{"a", "b"}}, missing, false},
		{N{Cmp: "in", Vals: []string{"a", ""}}, missing, true},
		{N{Cmp: "in", Vals: []string{"a", ""}}, tags{"k": ""}, true},
		{N{Cmp: "nin", Vals: []string{"a", "b"}}, tags{"k": "b"}, false},
		{N{Cmp: "nin", Vals: []string{"a", "b"}}, tags{"k": "c"}, true},
		{N{Cmp: "nin", Vals: []string{"a", "b"}}, missing, true},
		{N{Cmp: "nin", Vals: []string{"a", ""}}, missing, false},
		{N{Cmp: "ex"}, tags{"k": ""}, true},
		{N{Cmp: "ex"}, missing, false},
		{N{Cmp: "nex"}, tags{"k": ""}, false},
		{N{Cmp: "nex"}, missing, true},
		{N{Cmp: "sw", Val: "ab"}, tags{"k": "abc"}, true},
		{N{Cmp: "sw", Val: "ab"}, tags{"k": "cab"}, false},
		{N{Cmp: "sw", Val: "ab"}, missing, false},
		{N{Cmp: "ew", Val: "ab"}, tags{"k": "cab"}, true},
		{N{Cmp: "ew", Val: "ab"}, tags{"k": "abc"}, false},
		{N{Cmp: "ew", Val: "ab"}, missing, false},
		{N{Cmp: "ct", Val: "ab"}, tags{"k": "cabc"}, true},
		{N{Cmp: "ct", Val: "ab"}, tags{"k": "acb"}, false},
		{N{Cmp: "ct", Val: "ab"}, missing, false},
		{N{Cmp: "ct", Val: "\xa9"}, tags{"k": "é"}, true}, // byte-wise
	} {
		test.filter.Key = "k"
		f := compile(t, &test.filter)
		if got := f.Match(test.tags); got != test.want {
			t.Errorf("%s on %v: %v", text(&test.filter), test.tags, got)
		}
		if _, has := test.tags["k"]; !has && f.Match(nil) != test.want {
			t.Errorf("%s on no tags: %v", text(&test.filter), !test.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	long := strings.Repeat("9", 199)
	for _, test := range []struct {
		tag, val string
		want     string // "<", "=", ">", or "" if one is not a number
	}{
		{"1", "2", "<"},
		{"10", "9", ">"},
		{"-10", "9", "<"},
		{"-10", "-9", "<"},
		{"1.0", "1", "="},
		{"+1", "01.00", "="},
		{"-0", "0", "="},
		{"-0.0", "+0", "="},
		{"0.1", "0.10", "="},
		{"0.1", "0.09", ">"},
		{"-0.1", "-0.09", "<"},
		{"1.5", "1.49999", ">"},
		// Floats would call these equal.
		{"9007199254740993", "9007199254740992", ">"},
		{"0.1000000000000000001", "0.1000000000000000000", ">"},
		{"1" + long, long, ">"},
		{"0.1234567890123456789", "0.1234567890123456789", "="},
		// Not numbers.
		{"0.12345678901234567890", "1", ""},
		{"1" + long + "9", "1", ""},
		{"", "1", ""}, {"a", "1", ""}, {"1", "a", ""}, {"1e3", "1", ""}, {" 1", "1", ""}, {"1 ", "1", ""}, {"1.", "1", ""},
		{".5", "1", ""}, {"-", "1", ""}, {"+", "1", ""}, {".", "1", ""}, {"--1", "1", ""}, {"+-1", "1", ""}, {"1.2.3", "1", ""},
		{"1,5", "1", ""}, {"0x1", "1", ""}, {"NaN", "1", ""}, {"Inf", "1", ""}, {"1_0", "1", ""}, {"1", "1.-5", ""}, {"１", "1", ""},
		{"1\x00", "1", ""}, {"1", "NaN", ""},
	} {
		for cmp, holds := range map[string]string{"gt": ">", "gte": "=>", "lt": "<", "lte": "=<"} {
			f := compile(t, &N{Key: "k", Cmp: cmp, Val: test.val})
			want := test.want != "" && strings.Contains(holds, test.want)
			if got := f.Match(tags{"k": test.tag}); got != want {
				t.Errorf("%s %s %s: %v", test.tag, cmp, test.val, got)
			}
			if f.Match(nil) {
				t.Errorf("nothing %s %s", cmp, test.val)
			}
		}
	}
}

func TestOperators(t *testing.T) {
	yes, no := &N{Key: "k", Cmp: "ex"}, &N{Key: "k", Cmp: "nex"}
	for _, test := range []struct {
		op    string
		nodes []*N
		want  bool
	}{
		{"and", []*N{yes}, true},
		{"and", []*N{yes, yes}, true},
		{"and", []*N{yes, no}, false},
		{"and", []*N{no}, false},
		{"or", []*N{yes}, true},
		{"or", []*N{no, yes}, true},
		{"or", []*N{no, no}, false},
		{"not", []*N{yes}, false},
		{"not", []*N{no}, true},
		{"not", []*N{{Op: "and", Nodes: []*N{yes, {Op: "not", Nodes: []*N{yes}}}}}, true},
	} {
		n := &N{Op: test.op, Nodes: test.nodes}
		if got := compile(t, n).Match(tags{"k": "v"}); got != test.want {
			t.Errorf("%s: %v", text(n), got)
		}
	}
}

// TestValidation has every way to write a filter wrongly. An empty error
// means that the filter is valid.
func TestValidation(t *testing.T) {
	leaf := func(n N) N { n.Key = "k"; return n }
	ex := &N{Cmp: "ex"}
	type row struct {
		filter N
		err    string
	}
	rows := []row{
		{leaf(N{Cmp: "in", Vals: []string{"a"}}), ""},
		{leaf(N{Cmp: "in", Vals: []string{""}}), ""},
		{N{Cmp: "in", Vals: []string{"a"}}, `cmp "in" needs a key`},
		{leaf(N{Cmp: "in"}), `cmp "in" needs vals`},
		{leaf(N{Cmp: "nin", Vals: []string{}}), `cmp "nin" needs vals`},
		{leaf(N{Cmp: "nin", Val: "a", Vals: []string{"a"}}), `cmp "nin" takes no val`},
		{N{Cmp: "ex"}, ""}, // the key is not looked at
		{leaf(N{Cmp: "nex"}), ""},
		{leaf(N{Cmp: "ex", Val: "a"}), `cmp "ex" takes no val`},
		{leaf(N{Cmp: "nex", Vals: []string{"a"}}), `cmp "nex" takes no vals`},
		{N{}, `unknown cmp ""`},
		{leaf(N{Val: "a"}), `unknown cmp ""`},
		{leaf(N{Cmp: "EQ", Val: "a"}), `unknown cmp "EQ"`},
		{N{Op: "and"}, `op "and" needs nodes`},
		{N{Op: "or", Nodes: []*N{}}, `op "or" needs nodes`},
		{N{Op: "not"}, `op "not" needs nodes`},
		{N{Op: "not", Nodes: []*N{ex, ex}}, `op "not" takes one node, not 2`},
		{N{Op: "xor", Nodes: []*N{ex}}, `unknown op "xor"`},
		{N{Op: "AND", Nodes: []*N{ex}}, `unknown op "AND"`},
		{N{Op: strings.Repeat("x", 1000)}, `unknown op "` + strings.Repeat("x", 40) + `"`},
		{N{Op: "and", Nodes: []*N{ex, {Op: "not", Nodes: []*N{nil}}}}, `nodes[1]: nodes[0]: the node is null`},
		{N{Op: "or", Nodes: []*N{ex, {Key: "k", Cmp: "eq"}}}, `nodes[1]: cmp "eq" needs val`},
	}
	for _, cmp := range []string{"eq", "neq", "sw", "ew", "ct", "gt", "gte", "lt", "lte"} {
		rows = append(rows,
			row{leaf(N{Cmp: cmp, Val: "a"}), ""},
			row{N{Cmp: cmp, Val: "a"}, fmt.Sprintf("cmp %q needs a key", cmp)},
			row{leaf(N{Cmp: cmp}), fmt.Sprintf("cmp %q needs val", cmp)},
			row{leaf(N{Cmp: cmp, Val: "a", Vals: []string{"a"}}), fmt.Sprintf("cmp %q takes no vals", cmp)},
		)
	}
	for _, row := range rows {
		wantError(t, &row.filter, row.err)
	}
	wantError(t, nil, "the node is null")
}

func wantError(t *testing.T, n *N, want string) {
	t.Helper()
	f, err := Compile(n)
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", text(n), err)
	case want != "" && (err == nil || err.Error() != "tags filter: "+want || f != nil):
		t.Errorf("%s: %v, want %q", text(n), err, want)
	}
}

func TestBounds(t *testing.T) {
	nested := func(depth int) *N {
		n := &N{Cmp: "ex"}
		for range depth - 1 {
			n = &N{Op: "not", Nodes: []*N{n}}
		}
		return n
	}
	wide := func(leaf *N, count int) *N {
		return &N{Op: "or", Nodes: slices.Repeat([]*N{leaf}, count)}
	}
	values := func(count int) *N {
		return &N{Key: "k", Cmp: "in", Vals: slices.Repeat([]string{"a"}, count)}
	}
	within := func(err error) bool { return err == nil }
	beyond := func(what string) func(error) bool {
		return func(err error) bool { return err != nil && strings.HasSuffix(err.Error(), what) }
	}
	for _, test := range []struct {
		n    *N
		want func(error) bool
	}{
		{nested(MaxDepth), within},
		{nested(MaxDepth + 1), beyond("nested more than 32 levels deep")},
		{nested(1 << 20), beyond("nested more than 32 levels deep")},
		{wide(&N{Cmp: "ex"}, MaxNodes-1), within},
		{wide(&N{Cmp: "ex"}, MaxNodes), beyond("more than 256 nodes")},
		{wide(wide(&N{Cmp: "ex"}, 20), 20), beyond("more than 256 nodes")},
		{values(MaxVals), within},
		{values(MaxVals + 1), beyond("more than 1024 values")},
		{wide(values(MaxVals/2), 2), within},
		{wide(values(MaxVals/2+1), 2), beyond("more than 1024 values")},
	} {
		if _, err := Compile(test.n); !test.want(err) {
			t.Errorf("%v", err)
		}
	}
	// Errors stay short, however deep they come from.
	if _, err := Compile(nested(MaxDepth + 1)); len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestID(t *testing.T) {
	filters := []*N{
		{Key: "a", Cmp: "eq", Val: "b"},
		{Key: "a", Cmp: "eq", Val: "c"},
		{Key: "ab", Cmp: "eq", Val: "c"},
		{Key: "a", Cmp: "eq", Val: "bc"},
		{Key: "a", Cmp: "sw", Val: "b"},
		{Key: "a", Cmp: "in", Vals: []string{"b", "c"}},
		{Key: "a", Cmp: "in", Vals: []string{"bc"}},
		{Key: "a", Cmp: "in", Vals: []string{"c", "b"}},
		{Op: "and", Nodes: []*N{{Cmp: "ex"}}},
		{Op: "or", Nodes: []*N{{Cmp: "ex"}}},
		{Op: "or", Nodes: []*N{{Cmp: "ex"}, {Cmp: "ex"}}},
	}
	seen := map[[32]byte]string{(*Filter)(nil).ID(): "nil"}
	for _, n := range filters {
		id := compile(t, n).ID()
		if other, ok := seen[id]; ok {
			t.Errorf("%s has the ID of %s", text(n), other)
		}
		seen[id] = text(n)
		if id != compile(t, n).ID() {
			t.Errorf("%s: another ID at the second time", text(n))
		}
	}
}

// TestNothingIsKept changes what was compiled.
func TestNothingIsKept(t *testing.T) {
	n := &N{Op: "and", Nodes: []*N{{Key: "k", Cmp: "in", Vals: []string{"a"}}}}
	f := compile(t, n)
	n.Nodes[0].Vals[0], n.Nodes[0] = "b", nil
	if !f.Match(tags{"k": "a"}) {
		t.Error("the filter changed along")
	}
}

func TestNil(t *testing.T) {
	var f *Filter
	if !f.Match(nil) || !f.Match(tags{"a": "b"}) {
		t.Error("something does not pass the nil filter")
	}
}

// naive evaluates a filter in the simplest way, with big.Rat for numbers.
func naive(n *N, t tags) bool {
	v, has := t[n.Key]
	what := n.Op
	if what == "" {
		what = n.Cmp
	}
	switch what {
	case "and":
		return !slices.ContainsFunc(n.Nodes, func(k *N) bool { return !naive(k, t) })
	case "or":
		return slices.ContainsFunc(n.Nodes, func(k *N) bool { return naive(k, t) })
	case "not":
		return !naive(n.Nodes[0], t)
	case "eq":
		return has && v == n.Val
	case "neq":
		return !has || v != n.Val
	case "in":
		return slices.Contains(n.Vals, v)
	case "nin":
		return !slices.Contains(n.Vals, v)
	case "ex":
		return has
	case "nex":
		return !has
	case "sw":
		return has && strings.HasPrefix(v, n.Val)
	case "ew":
		return has && strings.HasSuffix(v, n.Val)
	case "ct":
		return has && strings.Contains(v, n.Val)
	}
	x, y := rational(v), rational(n.Val)
	if !has || x == nil || y == nil {
		return false
	}
	c := x.Cmp(y)
	return map[string]bool{"gt": c > 0, "gte": c >= 0, "lt": c < 0, "lte": c <= 0}[n.Cmp]
}

var number = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]{1,19})?$`)

// rational is nil if s is not a decimal number.
func rational(s string) *big.Rat {
	if len(s) > 200 || !number.MatchString(s) {
		return nil
	}
	r, _ := new(big.Rat).SetString(s)
	return r
}

// checkRandom compares random filters on random tags with naive.
func checkRandom(t *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c"})
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"x", "xy", "yx", "1", "1.0", "01", "-1", "-0", "0", "+0.0", "2", "10", "0.5", "0.50", "é"}),
		rapid.StringMatching(`[+-]?0{0,2}[0-9]{1,3}(\.[0-9]{1,3}0{0,17})?`),
		rapid.StringMatching(`.{1,4}`),
	)
	var draw func(t *rapid.T, depth int) *N
	draw = func(t *rapid.T, depth int) *N {
		cmp := rapid.SampledFrom([]string{"eq", "neq", "in", "nin", "ex", "nex", "sw", "ew", "ct", "gt", "gte", "lt", "lte"}).Draw(t, "cmp")
		op := rapid.SampledFrom([]string{"", "", "and", "or", "not"}).Draw(t, "op")
		switch {
		case depth > 0 && op == "not":
			return &N{Op: op, Nodes: []*N{draw(t, depth-1)}}
		case depth > 0 && op != "":
			n := &N{Op: op}
			for range rapid.IntRange(1, 3).Draw(t, "nodes") {
				n.Nodes = append(n.Nodes, draw(t, depth-1))
			}
			return n
		}
		n := &N{Key: key.Draw(t, "key"), Cmp: cmp}
		switch cmp {
		case "in", "nin":
			n.Vals = rapid.SliceOfN(rapid.OneOf(word, rapid.Just("")), 1, 4).Draw(t, "vals")
		case "ex", "nex":
		default:
			n.Val = word.Draw(t, "val")
		}
		return n
	}
	n := draw(t, 4)
	f, err := Compile(n)
	if err != nil {
		t.Fatalf("%s: %v", text(n), err)
	}
	for range 5 {
		tags := rapid.MapOfN(key, rapid.OneOf(word, rapid.Just("")), 0, 3).Draw(t, "tags")
		if got, want := f.Match(tags), naive(n, tags); got != want {
			t.Fatalf("%s on %v: %v, want %v", text(n), tags, got, want)
		}
	}
}

func TestRandom(t *testing.T) { rapid.Check(t, checkRandom) }

func FuzzRandom(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkRandom)) }

// FuzzCompile feeds whatever a client may send: there is no panic, and what is
// accepted evaluates as naive does.
func FuzzCompile(f *testing.F) {
	f.Add(`{"op":"and","nodes":[{"key":"a","cmp":"gt","val":"1.5"},{"op":"not","nodes":[{"key":"b","cmp":"in","vals":["x",""]}]}]}`, "2", "x")
	f.Add(`{"op":"or","nodes":[null]}`, "", "")
	f.Add(`{"key":"a","cmp":"lte","val":"-0.5"}`, "-0.50", "")
	f.Fuzz(func(t *testing.T, filter, a, b string) {
		var n N
		if n.UnmarshalJSON([]byte(filter)) != nil {
			return
		}
		compiled, err := Compile(&n)
		if err != nil {
			return
		}
		for _, tags := range []tags{nil, {"a": a}, {"a": a, "b": b}} {
			if got, want := compiled.Match(tags), naive(&n, tags); got != want {
				t.Fatalf("%s on %q: %v, want %v", filter, tags, got, want)
			}
		}
	})
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "+1.50", "1e5", "12345678901234567890.1234567890123456789", ".", ""} {
		f.Add(s, "1.5")
	}
	f.Fuzz(func(t *testing.T, s, u string) {
		d, okD := parseDecimal(s)
		e, okE := parseDecimal(u)
		x, y := rational(s), rational(u)
		if okD != (x != nil) || okE != (y != nil) {
			t.Fatalf("%q is a number: %v; %q: %v", s, okD, u, okE)
		}
		if okD && okE && d.compare(e) != x.Cmp(y) {
			t.Fatalf("%s compared with %s: %d, want %d", s, u, d.compare(e), x.Cmp(y))
		}
	})
}

func busyFilter() *N {
	return &N{Op: "and", Nodes: []*N{
		{Key: "severity", Cmp: "in", Vals: []string{"high", "critical"}},
		{Op: "or", Nodes: []*N{{Key: "price", Cmp: "gte", Val: "99.95"}, {Key: "region", Cmp: "sw", Val: "eu-"}}},
		{Op: "not", Nodes: []*N{{Key: "muted", Cmp: "ex"}}},
		{Key: "price", Cmp: "lt", Val: "1000"},
	}}
}

var busyTags = tags{"severity": "high", "price": "120.50", "region": "us-1"}

func TestMatchDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := compile(t, busyFilter())
	if !f.Match(busyTags) {
		t.Error("no match")
	}
	if n := testing.AllocsPerRun(100, func() { f.Match(busyTags); f.Match(nil) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	f := compile(b, busyFilter())
	b.ReportAllocs()
	for b.Loop() {
		f.Match(busyTags)
	}
}

func BenchmarkCompile(b *testing.B) {
	n := busyFilter()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Compile(n)
	}
}
