package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// group is a heading of the table: a comment line "# Name: text", and the layers below it.
type group struct {
	name, text string
	layers     []string
}

// groups returns the groups of the table. Layers above the first heading are in none.
func groups(table string) (found []group) {
	inComment := false
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "# ")
		name, text, isHeading := strings.Cut(comment, ": ")
		switch {
		case isComment && !inComment && isHeading:
			found = append(found, group{name: name, text: text})
		case isComment && inComment && len(found) > 0:
			found[len(found)-1].text += " " + comment
		case !isComment && line != "" && len(found) > 0:
			layer, _, _ := strings.Cut(line, ":")
			g := &found[len(found)-1]
			g.layers = append(g.layers, strings.TrimSuffix(layer, "*"))
		}
		inComment = isComment
	}
	return found
}

const packagesHead = `<!-- Made by tools/layers of the comments of all packages; do not edit. -->

# Packages

For those who read the code. Every package of the repository, by the layers of ` + "`tools/layers/layers.txt`" + `, with the first sentence of its
comment. [Architecture](ARCHITECTURE.md) shows how they work together. Packages whose names end in ` + "`test`" + ` are for tests.
`

// packagesPage fails for a package without a comment or a group.
func packagesPage(table, root string) (string, error) {
	layers, err := parse(table)
	if err != nil {
		return "", err
	}
	sentences, err := readSentences(root)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(packagesHead)
	listed := make(map[string]bool)
	for _, g := range groups(table) {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| package | |\n| --- | --- |\n", g.name, strings.ToUpper(g.text[:1])+g.text[1:])
		for _, folder := range slices.SortedFunc(maps.Keys(sentences), strings.Compare) {
			if l, _ := layers.of(folder); l != nil && slices.Contains(g.layers, l.name) {
				listed[folder] = true
				fmt.Fprintf(&page, "| [%s](../%s) | %s |\n", shown(folder), folder, strings.ReplaceAll(sentences[folder], "|", `\|`))
			}
		}
	}
	var wrong []error
	for _, folder := range slices.Sorted(maps.Keys(sentences)) {
		if sentences[folder] == "" {
			wrong = append(wrong, fmt.Errorf("%s: no file has a comment of the package", folder))
		}
		if !listed[folder] {
			wrong = append(wrong, fmt.Errorf("%s: it is below no heading of the table of layers", folder))
		}
	}
	return page.String(), errors.Join(wrong...)
}

func shown(folder string) string {
	if folder == "." {
		return "gyro"
	}
	return folder
}

// longSentence is the length above which the table has a sentence up to its colon alone.
const longSentence = 160

// readSentences returns the first sentence of each package's comment, without "Package NAME", by folder.
func readSentences(root string) (map[string]string, error) {
	sentences := make(map[string]string)
	files := token.NewFileSet()
	err := walk(root, func(file, relative string) error {
		parsed, err := parser.ParseFile(files, file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if folder := path.Dir(relative); sentences[folder] == "" {
			sentences[folder] = firstSentence(parsed)
		}
		return nil
	})
	return sentences, err
}

func firstSentence(file *ast.File) string {
	text := strings.Join(strings.Fields(file.Doc.Text()), " ")
	for _, start := range []string{"Package ", "Command "} {
		if rest, ok := strings.CutPrefix(text, start); ok {
			_, text, _ = strings.Cut(rest, " ")
			break
		}
	}
	text, _, _ = strings.Cut(text, ". ")
	if len(text) > longSentence {
		text, _, _ = strings.Cut(text, ": ")
	}
	text = strings.TrimRight(text, ".:")
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text)
}

// walk visits every Go file below root that is no test.
func walk(root string, visit func(file, relative string) error) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return visit(file, filepath.ToSlash(relative))
	})
}
