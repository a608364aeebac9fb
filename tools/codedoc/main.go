// Command codedoc writes the reference of codes from the variables that declare them and
// their comments:
//
//	codedoc -template FILE -out FILE SOURCE...
//
// The template finds all variables of the sources by the type of their value and the beginning of their name: {{range
// codes "Error" "Disconnect"}}.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"text/template"
)

func main() {
	in := flag.String("template", "", "template of the page")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := run(*in, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "codedoc:", err)
		os.Exit(1)
	}
}

func run(in, out string, sources []string) error {
	declared, err := read(sources)
	if err != nil {
		return err
	}
	page, err := template.New("").Funcs(template.FuncMap{"codes": func(prefix string) []code {
		var found []code
		for _, c := range declared {
			if strings.HasPrefix(c.Name, prefix) && !('a' <= c.Name[len(prefix)] && c.Name[len(prefix)] <= 'z') {
				found = append(found, c)
			}
		}
		return found
	}}).ParseFiles(in)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := page.ExecuteTemplate(f, in[strings.LastIndex(in, "/")+1:], nil); err != nil {
		return err
	}
	return f.Close()
}

type code struct {
	Name      string
	Code      int
	Text      string
	Temporary bool
	Meaning   string
}

func read(sources []string) (all []code, failure error) {
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			c := code{Name: spec.Names[0].Name}
			if ast.Inspect(spec.Values[0], c.literal); c.Text == "" {
				return true // something else
			}
			meaning, found := strings.CutPrefix(strings.Join(strings.Fields(spec.Doc.Text()), " "), c.Name+": ")
			if !found || meaning == "" {
				failure = fmt.Errorf("%s: the comment of %s has to be its name, a colon and its meaning", source, c.Name)
				return false
			}
			c.Meaning = strings.ToUpper(meaning[:1]) + meaning[1:]
			all = append(all, c)
			return true
		})
	}
	return all, failure
}

func (c *code) literal(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		switch n.Kind {
		case token.INT:
			c.Code, _ = strconv.Atoi(n.Value)
		case token.STRING:
			c.Text, _ = strconv.Unquote(n.Value)
		}
	case *ast.Ident:
		c.Temporary = c.Temporary || n.Name == "true"
	}
	return true
}
