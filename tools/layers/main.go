// Command layers checks the imports of all packages against layers.txt, the table of which package may import which. With
// -packages it writes the page that lists all packages by the headings of the table.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/gyrohq/gyro"

//go:embed layers.txt
var text string

func main() {
	packages := flag.String("packages", "", "write the list of all packages to this file instead")
	flag.Parse()
	if err := run(*packages); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(packages string) error {
	if packages != "" {
		page, err := packagesPage(text, ".")
		if err != nil {
			return err
		}
		return os.WriteFile(packages, []byte(page), 0o644)
	}
	wrong, err := check(text, ".")
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("tools/layers/layers.txt has no place for:\n%s", strings.Join(wrong, "\n"))
	}
	return err
}

// check returns a line for every forbidden import, every package without a layer, and every pattern without a package.
func check(table, root string) ([]string, error) {
	layers, err := parse(table)
	if err != nil {
		return nil, err
	}
	imports, err := readImports(root)
	if err != nil {
		return nil, err
	}
	var wrong []string
	used := make(map[string]bool)
	for _, folder := range slices.Sorted(maps.Keys(imports)) {
		from, pattern := layers.of(folder)
		if used[pattern] = true; from == nil {
			wrong = append(wrong, folder+": no line names it")
			continue
		}
		for _, imported := range slices.Sorted(maps.Keys(imports[folder])) {
			if to, _ := layers.of(imported); to != nil && !from.mayImport(to) {
				wrong = append(wrong, fmt.Sprintf("%s: %s imports %s, and layer %s may not import layer %s", imports[folder][imported], folder, imported, from.name, to.name))
			}
		}
	}
	for _, l := range layers {
		for _, pattern := range l.patterns {
			if !used[pattern] {
				wrong = append(wrong, fmt.Sprintf("layer %s: there is no package %s", l.name, pattern))
			}
		}
	}
	return wrong, nil
}

type layer struct {
	name              string
	patterns, allowed []string
	all               bool // it may import every package
}

func (l *layer) mayImport(to *layer) bool {
	return l.all || l == to || slices.Contains(l.allowed, to.name)
}

type layerTable []*layer

func parse(table string) (layerTable, error) {
	var layers layerTable
	names, patterns := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, rest, found := strings.Cut(line, ":")
		if !found {
			return nil, fmt.Errorf("layers: no colon in %q", line)
		}
		packages, allowed, _ := strings.Cut(rest, "<-")
		l := &layer{name: strings.TrimSuffix(name, "*"), all: strings.HasSuffix(name, "*"), patterns: strings.Fields(packages), allowed: strings.Fields(allowed)}
		for _, pattern := range l.patterns {
			if patterns[pattern] {
				return nil, fmt.Errorf("layers: %s is in two lines", pattern)
			}
			patterns[pattern] = true
		}
		if names[l.name] {
			return nil, fmt.Errorf("layers: two lines have the name %s", l.name)
		}
		names[l.name] = true
		layers = append(layers, l)
	}
	for _, l := range layers {
		for _, name := range l.allowed {
			if !names[name] {
				return nil, fmt.Errorf("layers: layer %s may import %s, which is no layer", l.name, name)
			}
		}
	}
	return layers, nil
}

// of returns the layer of a folder and its most specific pattern; nil if there is none.
func (t layerTable) of(folder string) (found *layer, pattern string) {
	for _, l := range t {
		for _, p := range l.patterns {
			if above, tree := strings.CutSuffix(p, "/..."); p == folder || tree && (folder == above || strings.HasPrefix(folder, above+"/")) {
				if p == folder || len(p) > len(pattern) {
					found, pattern = l, p
				}
				if p == folder {
					return found, pattern
				}
			}
		}
	}
	return found, pattern
}

// readImports returns, by the folder of each package, the folders that it imports, each with the place of one import. It
// reads the files for all systems, and no tests.
func readImports(root string) (map[string]map[string]string, error) {
	imports := make(map[string]map[string]string)
	files := token.NewFileSet()
	err := walk(root, func(file, relative string) error {
		parsed, err := parser.ParseFile(files, file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := path.Dir(relative)
		if imports[folder] == nil {
			imports[folder] = make(map[string]string)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if below, ok := strings.CutPrefix(imported+"/", module+"/"); ok {
				imports[folder][path.Clean(below)] = fmt.Sprintf("%s:%d", relative, files.Position(spec.Pos()).Line)
			}
		}
		return nil
	})
	return imports, err
}
