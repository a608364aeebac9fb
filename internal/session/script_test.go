package session_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the expected output of testdata/*.txt")

// TestConversations plays testdata/*.txt. A file is a list of steps:
//
//	# a comment
//	recv
//	{"id":1,"connect":{}}
//	----
//	do 1 connecting {}
//
// A step is a line with a directive and its arguments, further input lines, a
// line of four dashes, and the output up to an empty line. See directives_test.go for
// what there is; -update rewrites the output.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations found: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { playFile(t, path) })
	}
}

func playFile(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayer()
	defer p.close()
	var (
		out  strings.Builder
		rest = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		line int
	)
	for line < len(rest) {
		if l := rest[line]; l == "" || strings.HasPrefix(l, "#") {
			out.WriteString(l + "\n")
			line++
			continue
		}
		first := line
		for line < len(rest) && rest[line] != "----" {
			out.WriteString(rest[line] + "\n")
			line++
		}
		step := rest[first:line]
		line++
		from := line
		for line < len(rest) && rest[line] != "" {
			line++
		}
		want := strings.Join(rest[min(from, line):line], "\n")
		got, err := p.play(step[0], step[1:])
		if err != nil {
			t.Fatalf("%s:%d: %s: %v", path, first+1, step[0], err)
		}
		out.WriteString("----\n")
		if got != "" {
			out.WriteString(got + "\n")
		}
		got = tagsInOutput.ReplaceAllStringFunc(got, sortTags)
		if got != want && !*update {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", path, first+1, strings.Join(step, "\n"), got, want)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// words splits a line at blanks outside of quotes and brackets.
func words(line string) []string {
	var (
		out   []string
		word  strings.Builder
		depth int
		quote bool
	)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote && c == '\\' && i+1 < len(line):
			word.WriteByte(c)
			i++
			c = line[i]
		case c == '"':
			quote = !quote
		case quote:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ' ' && depth == 0:
			if word.Len() > 0 {
				out = append(out, word.String())
				word.Reset()
			}
			continue
		}
		word.WriteByte(c)
	}
	if word.Len() > 0 {
		out = append(out, word.String())
	}
	return out
}

// args are the key=value arguments of a directive; a bare key has the value "".
// Each use takes the argument out, so that what is left over is unknown.
type args map[string]string

func parseArgs(list []string) args {
	a := make(args)
	for _, w := range list {
		key, value, _ := strings.Cut(w, "=")
		if unquoted, err := strconv.Unquote(value); err == nil && strings.HasPrefix(value, `"`) && key != "data" {
			value = unquoted
		}
		a[key] = value
	}
	return a
}

func (a args) has(key string) bool {
	_, ok := a[key]
	delete(a, key)
	return ok
}

func (a args) str(key string) string {
	v := a[key]
	delete(a, key)
	return v
}

// bytes is nil if there is no such argument.
func (a args) bytes(key string) []byte {
	v, ok := a[key]
	delete(a, key)
	if !ok {
		return nil
	}
	return []byte(v)
}

func (a args) num(key string, def int64) int64 {
	v, ok := a[key]
	delete(a, key)
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Errorf("%s: %w", key, err))
	}
	return n
}

func (a args) dur(key string, def time.Duration) time.Duration {
	v, ok := a[key]
	delete(a, key)
	if !ok {
		return def
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		panic(fmt.Errorf("%s: %w", key, err))
	}
	return d
}

func (a args) leftover() error {
	for key := range a {
		return fmt.Errorf("unknown argument %q", key)
	}
	return nil
}

// Maps are encoded in any order; expectations have them sorted.
var tagsInOutput = regexp.MustCompile(`"tags":\{[^}]*\}`)

func sortTags(member string) string {
	var tags map[string]string
	_, object, _ := strings.Cut(member, ":")
	if json.Unmarshal([]byte(object), &tags) != nil {
		return member
	}
	sorted, _ := json.Marshal(tags) // strings only
	return `"tags":` + string(sorted)
}
