package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func decision(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestIndex(t *testing.T) {
	page, err := index(fstest.MapFS{
		"001-loops.md": decision("# Loops\n\nSubject: Speed\n\n## Decision\n"),
		"002-rows.md":  decision("# Rows\n\nSubject: Engines\n\n## Decision\n"),
		"003-turns.md": decision("# Turns\n\nSubject: Speed\n\n## Decision\n"),
		"README.md":    decision("old"),
	})
	want := head + "\n## Speed\n\n* 001 [Loops](001-loops.md)\n* 003 [Turns](003-turns.md)\n\n## Engines\n\n* 002 [Rows](002-rows.md)\n"
	if err != nil || page != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, page, want)
	}
}

func TestIndexRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		tree fstest.MapFS
		want string
	}{
		"nothing":    {fstest.MapFS{"README.md": decision("old")}, "no decisions"},
		"a gap":      {fstest.MapFS{"002-rows.md": decision("# Rows\n\nSubject: Engines\n\n")}, "002-rows.md: the next number is 001"},
		"a twin":     {fstest.MapFS{"001-a.md": decision("# A\n\nSubject: B\n\n"), "001-b.md": decision("# B\n\nSubject: B\n\n")}, "001-b.md: the next number is 002"},
		"no title":   {fstest.MapFS{"001-a.md": decision("A\n\nSubject: B\n\n")}, "001-a.md: it does not begin"},
		"no subject": {fstest.MapFS{"001-a.md": decision("# A\n\nText\n\n")}, "001-a.md: it does not begin"},
		"too short":  {fstest.MapFS{"001-a.md": decision("# A\n")}, "001-a.md: it does not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := index(tt.tree); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
