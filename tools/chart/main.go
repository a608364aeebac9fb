// Command chart renders a Helm chart as helm template does. It supports only the features in the chart of this
// repository, none that asks a cluster, and compiles in a fraction of the time that Helm takes.
//
//	chart [-f VALUES.yaml] [-set key=value] [-out FOLDER] RELEASE CHART
//
// Manifests go to stdout, or to a file per template in FOLDER.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	values := flags.String("f", "", "file with values")
	out := flags.String("out", "", "folder for a file per template, instead of stdout")
	var sets []string
	flags.Func("set", "key=value, YAML; repeatable", func(s string) error {
		sets = append(sets, s)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("usage: chart [-f VALUES.yaml] [-set key=value] [-out FOLDER] RELEASE CHART")
	}
	c, err := load(flags.Arg(1))
	if err != nil {
		return err
	}
	if *values != "" {
		if err := c.addValues(*values); err != nil {
			return err
		}
	}
	for _, set := range sets {
		if err := c.set(set); err != nil {
			return err
		}
	}
	files, err := c.render(flags.Arg(0))
	if err != nil {
		return err
	}
	if *out == "" {
		for _, f := range files {
			fmt.Fprintf(stdout, "---\n# Source: %s/templates/%s\n%s", c.meta["name"], f.name, f.text)
		}
		return nil
	}
	return write(*out, files, flags.Arg(1), *values)
}

func write(folder string, files []file, chart, values string) error {
	old, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	head := fmt.Sprintf("# Made of the chart %s and %s by make generate: edit those.\n", filepath.Base(chart), filepath.Base(values))
	for _, f := range files {
		text := head + "---\n" + f.text
		if err := os.WriteFile(filepath.Join(folder, f.name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

type file struct{ name, text string }
