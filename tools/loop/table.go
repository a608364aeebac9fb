package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The lines of CONTRIBUTING.md between which the table stands.
const (
	tableBegin = "<!-- made by make generate of tools/loop -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

// writeTable writes the page to out, with the table of all loops.
func writeTable(page, out string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return errors.New(page + " has no place for the table of tools/loop")
	}
	return os.WriteFile(out, []byte(before+tableBegin+"\n"+table()+"\n"+tableEnd+after), 0o644)
}

func table() string {
	var b strings.Builder
	b.WriteString("| loop | step | what |\n| --- | --- | --- |\n")
	for _, name := range []string{"check", "test", "ci"} {
		l := loops[name]
		fmt.Fprintf(&b, "| **`make %s`** | | %s |\n", name, l.about)
		for _, s := range slices.Concat(l.stages...) {
			what := s.about
			if len(s.needs) > 0 {
				what += " (needs " + strings.Join(s.needs, ", ") + ")"
			}
			fmt.Fprintf(&b, "| | `%s` | %s |\n", s.name, what)
		}
	}
	return b.String()
}
