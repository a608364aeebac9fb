package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/need"
)

// TestSteps: each step has a name of its own within its loop, says what it is for, and needs programs that package need
// knows.
func TestSteps(t *testing.T) {
	for name, l := range loops {
		if l.name != name || l.about == "" {
			t.Errorf("%s: its name is %q, its purpose %q", name, l.name, l.about)
		}
		seen := map[string]bool{}
		for _, s := range slices.Concat(l.stages...) {
			if seen[s.name] {
				t.Errorf("%s has two steps %s", name, s.name)
			}
			seen[s.name] = true
			if s.about == "" || len(s.do) == 0 {
				t.Errorf("%s: step %s does nothing, or does not say what", name, s.name)
			}
			for _, program := range slices.Concat(s.needs, s.wants) {
				need.Packages(program) // panics if it does not know the program
			}
		}
	}
}

func TestOnly(t *testing.T) {
	part, err := loops["test"].only([]string{"sdk-js"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range slices.Concat(part.stages...) {
		names = append(names, s.name)
	}
	if want := []string{"server", "sdk-js"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if _, err := loops["test"].only([]string{"unit", "none"}); err == nil || !strings.Contains(err.Error(), `no part "none"`) {
		t.Errorf("an unknown part: %v", err)
	}
}

// house is a tree of a few packages: a hub, a loop that imports it, a server that imports the loop, and a test that reads
// documentation.
func house() *tree {
	add := func(folder string, imports ...string) *goPackage {
		p := &goPackage{ImportPath: strings.TrimSuffix(module+"/"+folder, "/"), TestGoFiles: []string{"x_test.go"}}
		for _, i := range imports {
			p.Imports = append(p.Imports, module+"/"+i)
		}
		return p
	}
	t := &tree{modules: []string{".", "server", "broker/redis"}, packages: make(map[string]*goPackage)}
	guide := add("server/guide")
	guide.Reads = []string{"docs/guide.md", "deploy"}
	for _, p := range []*goPackage{
		add(""), add("internal/hub"), add("internal/loop", "internal/hub"), add("server/app", "internal/loop"), add("broker/redis"), guide,
	} {
		t.packages[p.ImportPath] = p
	}
	return t
}

func TestAffected(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"internal/hub/hub.go", "internal/hub internal/loop"},
		{"internal/hub/hub_test.go", "internal/hub"},
		{"internal/hub/testdata/a/b.txt", "internal/hub"},
		{"docs/guide.md", "server/guide"},
		{"docs/other.md", ""},
		{"deploy/helm/values.yaml", "server/guide"},
		{"admin/src/main.tsx", ""},
		{"server/go.mod", "server/app server/guide"},
		{"node.go", ""},
		{"internal/loop/loop.go docs/guide.md", "internal/loop server/app server/guide"},
	} {
		var got []string
		for _, name := range house().affected(strings.Fields(c.files)) {
			got = append(got, strings.TrimPrefix(strings.TrimPrefix(name, module), "/"))
		}
		if want := c.want; strings.TrimSpace(strings.Join(got, " ")) != want {
			t.Errorf("%s: got %q, want %q", c.files, got, want)
		}
	}
	if got := house().affected([]string{"node.go"}); !slices.Equal(got, []string{module}) {
		t.Errorf("node.go: %q", got)
	}
}

func TestReaders(t *testing.T) {
	if got, want := readers(house()), []string{module + "/server/guide"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := unit(house()); slices.Contains(got, module+"/server/guide") || len(got) != len(house().packages)-1 {
		t.Errorf("unit: got %q", got)
	}
}

func TestHashFiles(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		h, err := hashFiles(root, []string{"docs", "Makefile", "no file", "docs"})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	write("Makefile", "a")
	write("docs/guide.md", "b")
	before := hash()
	write("other/page.md", "c")
	write("docs/node_modules/module.js", "d")
	if hash() != before {
		t.Error("the hash changes with a file that is not read")
	}
	write("docs/guide.md", "e")
	changed := hash()
	write("docs/guide.md", "b")
	write("docs/more.md", "")
	if added := hash(); changed == before || added == before || added == changed {
		t.Error("the hash does not change")
	}
}

const log = `{"Action":"start","Package":"p/good"}
{"Action":"output","Package":"p/good","Test":"TestA","Output":"    a_test.go:1: needs initdb: apt-get install postgresql\n"}
{"Action":"skip","Package":"p/good","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p/good","Test":"TestB","Elapsed":2.5}
{"Action":"pass","Package":"p/good","Elapsed":3}
{"Action":"output","Package":"p/bad","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p/bad","Test":"TestC","Output":"    c_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"p/bad","Test":"TestC","Elapsed":1}
{"Action":"fail","Package":"p/bad","Elapsed":1.5}
{"ImportPath":"p/broken","Action":"build-output","Output":"broken.go:3:1: undefined: x\n"}
{"ImportPath":"p/broken","Action":"build-fail"}
{"Action":"output","Package":"p/broken","Output":"FAIL\tp/broken [build failed]\n"}
{"Action":"fail","Package":"p/broken","Elapsed":0,"FailedBuild":"p/broken"}
`

// TestProgress: what failed is printed when its package ends, and what was skipped for want of something is kept.
func TestProgress(t *testing.T) {
	var printed bytes.Buffer
	r := &runner{out: &printed}
	p := progress{r: r, failing: make(map[string]*strings.Builder)}
	if err := p.read(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"c_test.go:9: got 1, want 2", "undefined: x"} {
		if strings.Count(printed.String(), want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, &printed)
		}
	}
	if strings.Contains(printed.String(), "=== RUN") {
		t.Errorf("the beginning of a test is told:\n%s", &printed)
	}
	printed.Reset()
	r.results.report(&printed)
	for _, want := range []string{"3.0 s  p/good", "2.5 s  p/good TestB", "needs initdb: apt-get install postgresql (p/good TestA)", "\n1 passed, 1 failed, 1 skipped\n"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &printed)
		}
	}
	if err := p.read(strings.NewReader("panic: no JSON\n")); err == nil {
		t.Error("a line that is no JSON was taken")
	}
}

// TestRun: a step that fails ends its loop after its stage, with its output; a thorough loop goes on.
func TestRun(t *testing.T) {
	says := func(text string, err error) []action {
		return []action{func(_ context.Context, _ *runner, out *output) error {
			_, _ = out.Write([]byte(text))
			return err
		}}
	}
	l := &loop{name: "test", width: 2, stages: [][]step{
		{{name: "bad", do: says("what bad printed", errors.New("bad failed"))}, {name: "beside", do: says("what beside printed", nil)}},
		{{name: "later", do: says("", nil)}},
	}}
	for _, thorough := range []bool{false, true} {
		l.thorough = thorough
		var printed bytes.Buffer
		r := &runner{ctx: t.Context(), out: &printed}
		if err := r.run(l); err == nil || !strings.Contains(err.Error(), "bad") {
			t.Errorf("the loop ended with %v", err)
		}
		text := printed.String()
		if !strings.Contains(text, "what bad printed\nbad failed") || strings.Contains(text, "what beside printed") || !strings.Contains(text, "-- beside: ") {
			t.Errorf("it printed\n%s", text)
		}
		if strings.Contains(text, "-- later: ") != thorough {
			t.Errorf("thorough %v, and it printed\n%s", thorough, text)
		}
	}
}

// TestLack: a step without its program is skipped with a line, and fails with CI=true.
func TestLack(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, ok := need.Find("jq"); ok {
		t.Fatal("jq was found in an empty PATH")
	}
	l := &loop{name: "test", stages: [][]step{{{name: "page", needs: []string{"jq"}}}}}
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		var printed bytes.Buffer
		err := (&runner{ctx: t.Context(), out: &printed}).run(l)
		if (err != nil) != (ci == "true") || !strings.Contains(printed.String(), "needs jq: apt-get install jq") {
			t.Errorf("CI=%q: %v, printed\n%s", ci, err, &printed)
		}
	}
}

func TestGofmt(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("a/good.go", "package a\n")
	put("node_modules/bad.go", "package  a\n")
	put(".cache/bad.go", "package  a\n")
	r := &runner{root: root}
	if err := gofmt(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	put("a/bad.go", "package  a\n")
	if err := gofmt(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "\na/bad.go") {
		t.Errorf("got %v", err)
	}
	put("a/wrong.go", "package\n")
	if err := gofmt(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "a/wrong.go:1:9") {
		t.Errorf("got %v", err)
	}
}

func TestTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(page, page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); strings.Contains(s, "old") || !strings.HasPrefix(s, "before\n") || !strings.HasSuffix(s, "after\n") || !strings.Contains(s, "| | `unit` | ") {
		t.Errorf("the page is\n%s", s)
	}
}

func TestGoflags(t *testing.T) {
	for in, want := range map[string]string{"": "-trimpath", "-mod=mod": "-mod=mod -trimpath", "-trimpath": "-trimpath"} {
		if got := goflags(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestPrograms: tests hear which programs are there.
func TestPrograms(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n",
		"m_test.go": `package m

import (
	"os"
	"testing"
)

func Test(t *testing.T) {
	if got := os.Getenv("` + need.Known + `"); got != "jq node" {
		t.Error(got)
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := &runner{
		root: root, out: io.Discard, env: append(os.Environ(), "GOWORK=off", "GOFLAGS="),
		programs: func() []string { return []string{"jq", "node"} },
	}
	if err := r.goTest(t.Context(), []string{"."}); err != nil {
		t.Error(err)
	}
}
