// Command loop runs the checks that a change must pass, the cheap ones first:
//
//	loop [-fresh] [-part NAMES] check|test|ci
//
// check is for each commit, test for each change, ci for everything else; loops.go has the steps of each, and CONTRIBUTING.md
// a table of them. Each step prints its name when it begins, its time when it ends, and its output at once if it fails.
// After the steps come the slowest packages and tests, and the tests that were skipped because a program is missing. -part runs some steps
// of a loop alone, separated by commas; -fresh runs Go tests whose results Go has kept.
//
// Three other uses:
//
//	loop -parts              prints the names of the steps of ci, as a JSON array
//	loop -table FILE         writes CONTRIBUTING.md with the table of all steps to FILE
//	loop -install PROGRAM... installs programs that are missing, by the table of package need
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	fresh := flag.Bool("fresh", false, "run also Go tests whose results Go has kept")
	part := flag.String("part", "", "names of steps to run alone, separated by commas")
	parts := flag.Bool("parts", false, "print the names of the steps of ci")
	table := flag.String("table", "", "file to write CONTRIBUTING.md to, with the table")
	install := flag.Bool("install", false, "install the programs that the arguments name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *parts:
		err = json.NewEncoder(os.Stdout).Encode(loops["ci"].names())
	case *table != "":
		err = writeTable("CONTRIBUTING.md", *table)
	case *install:
		err = installMissing(ctx, os.Stderr, flag.Args())
	default:
		err = run(ctx, flag.Arg(0), *part, *fresh)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, part string, fresh bool) error {
	l, ok := loops[name]
	if !ok {
		return fmt.Errorf("usage: loop [-fresh] [-part NAMES] check|test|ci")
	}
	if part != "" {
		var err error
		if l, err = l.only(strings.Split(part, ",")); err != nil {
			return err
		}
	}
	r, err := newRunner(ctx, os.Stdout, l.gyro, fresh)
	if err != nil {
		return err
	}
	return r.run(l)
}

type loop struct {
	name  string
	about string // for CONTRIBUTING.md
	// stages follow each other; the steps of a stage run side by side.
	stages [][]step
	// gyro is the variable with the server that tests start; empty: they build it.
	gyro string
	// width is how many steps of a stage run at a time.
	width int
	// installs is true if programs that steps need are installed, where that is possible.
	installs bool
	// thorough is true if the steps after one that failed run as well.
	thorough bool
}

type step struct {
	name  string
	about string // for CONTRIBUTING.md
	// Without a program in needs the step is skipped, without one in wants some of its tests are.
	needs, wants []string
	do           []action
	// prepares: other steps need this step. It runs with any part of its loop, and is no part by itself.
	prepares bool
}

// action is a part of a step. It writes its output to out, which is shown if the step fails.
type action func(ctx context.Context, r *runner, out *output) error

func (l *loop) names() (names []string) {
	for _, s := range slices.Concat(l.stages...) {
		if !s.prepares {
			names = append(names, s.name)
		}
	}
	return names
}

// only returns a loop of these steps, and of the steps that prepare something for them.
func (l *loop) only(names []string) (*loop, error) {
	for _, name := range names {
		if !slices.Contains(l.names(), name) {
			return nil, fmt.Errorf("%s has no part %q; its parts are %s", l.name, name, strings.Join(l.names(), ", "))
		}
	}
	part := *l
	part.stages = nil
	for _, stage := range l.stages {
		part.stages = append(part.stages, slices.DeleteFunc(slices.Clone(stage), func(s step) bool {
			return !s.prepares && !slices.Contains(names, s.name)
		}))
	}
	return &part, nil
}
