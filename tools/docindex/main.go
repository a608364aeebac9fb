// Command docindex writes the table of contents of docs/decisions: docindex OUT. It runs in the root of the repository.
//
// The name of a decision is a number of three digits and its title. It begins with its title and its subject. The numbers have no gap.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

const head = `<!-- Made by tools/docindex of the decisions beside it; do not edit. -->

# Decisions

For those who ask why something is as it is. One decision on each page: the decision, its reasons with figures where there are some, and the
alternatives where they are known. A new decision gets the next number and a page of this form:

` + "```md figure" + `
# A title that says the decision

Subject: one of the headings below

## Decision

## Why

## Alternatives
` + "```" + `
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "docindex OUT")
		os.Exit(2)
	}
	page, err := index(os.DirFS("docs/decisions"))
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "docindex: %v\n", err)
		os.Exit(1)
	}
}

func index(tree fs.FS) (string, error) {
	names, err := fs.Glob(tree, "[0-9]*.md")
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", errors.New("no decisions found")
	}
	var subjects []string
	lists := make(map[string]*strings.Builder)
	for i, name := range names {
		number, _, _ := strings.Cut(name, "-")
		if want := fmt.Sprintf("%03d", i+1); number != want {
			return "", fmt.Errorf("%s: the next number is %s", name, want)
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return "", err
		}
		title, subject, ok := parse(string(text))
		if !ok {
			return "", fmt.Errorf(`%s: it does not begin with "# TITLE", an empty line and "Subject: SUBJECT"`, name)
		}
		if lists[subject] == nil {
			subjects, lists[subject] = append(subjects, subject), new(strings.Builder)
		}
		fmt.Fprintf(lists[subject], "* %s [%s](%s)\n", number, title, path.Base(name))
	}
	page := head
	for _, subject := range subjects {
		page += "\n## " + subject + "\n\n" + lists[subject].String()
	}
	return page, nil
}

func parse(text string) (title, subject string, ok bool) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 || lines[1] != "" {
		return "", "", false
	}
	title, isTitle := strings.CutPrefix(lines[0], "# ")
	subject, hasSubject := strings.CutPrefix(lines[2], "Subject: ")
	return title, subject, isTitle && hasSubject
}
