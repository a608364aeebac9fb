package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gyrohq/gyro/tools/internal/alertrules"
)

// family is a metric of docs/metrics.md, without prefix.
type family struct {
	name, kind string
	labels     []string
	meaning    string
}

var familyRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\|([^|]*)\\|")

func readFamilies(page []byte) (list []family, err error) {
	for _, m := range familyRow.FindAllStringSubmatch(string(page), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		list = append(list, family{m[1], m[2], labels, strings.TrimSpace(m[4])})
	}
	if len(list) < 50 {
		return nil, fmt.Errorf("there are only %d metrics in docs/metrics.md", len(list))
	}
	return list, nil
}

func twin(list []family, f family) bool {
	return f.kind == "summary" && slices.ContainsFunc(list, func(o family) bool { return o.name == f.name+"_histogram" })
}

var word = regexp.MustCompile(`\b[a-z][a-z0-9_]*\b(\{)?`)

// process are the first parts of names that others have given.
var process = []string{"process_", "go_"}

// qualify adds the prefix to names of metrics, and matcher to selectors unless it is empty.
func qualify(expr, prefix, matcher string, list []family) string {
	return word.ReplaceAllStringFunc(expr, func(s string) string {
		name, braced := strings.CutSuffix(s, "{")
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		ours := slices.ContainsFunc(list, func(f family) bool { return f.name == name || f.kind == "histogram" && f.name == base })
		others := slices.ContainsFunc(process, func(p string) bool { return strings.HasPrefix(name, p) })
		switch {
		case ours:
			name = prefix + "_" + name
		case !others:
			return s
		}
		switch {
		case matcher == "" && braced:
			return name + "{"
		case matcher == "":
			return name
		case braced:
			return name + "{" + matcher + ","
		}
		return name + "{" + matcher + "}"
	})
}

type series map[string][]string

// check checks the syntax of an expression, its metrics and their labels, and returns the metrics' names.
func (s series) check(expr string) (names []string, err error) {
	e, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			names = append(names, n.Name)
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" && err == nil {
					err = s.has(n.Name, m.Name)
				}
			}
			if _, ok := s[n.Name]; !ok && err == nil {
				err = fmt.Errorf("there is no metric %s", n.Name)
			}
		case *parser.AggregateExpr:
			for _, name := range alertrules.Selected(n.Expr) {
				for _, label := range n.Grouping {
					if err == nil {
						err = s.has(name, label)
					}
				}
			}
		}
		return nil
	})
	return names, err
}

func (s series) has(name, label string) error {
	if labels, ok := s[name]; !ok {
		return fmt.Errorf("there is no metric %s", name)
	} else if !slices.Contains(labels, label) && !slices.Contains([]string{"instance", "job", "cluster"}, label) { // the scrape adds these
		return fmt.Errorf("%s has no label %s", name, label)
	}
	return nil
}
