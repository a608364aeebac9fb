package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// gofmt fails with the names of Go files that are not formatted, or have no valid syntax.
func gofmt(_ context.Context, r *runner, _ *output) error {
	var group errgroup.Group
	group.SetLimit(4)
	var names, bad output
	err := filepath.WalkDir(r.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != r.root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "dist") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		group.Go(func() error {
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			formatted, err := format.Source(source)
			name, _ := filepath.Rel(r.root, path) // it is below the root
			switch {
			case err != nil:
				fmt.Fprintf(&bad, "%s:%v\n", name, err)
			case string(formatted) != string(source):
				fmt.Fprintf(&names, "%s\n", name)
			}
			return nil
		})
		return nil
	})
	if err = errors.Join(err, group.Wait()); err != nil {
		return err
	}
	if text := bad.String(); text != "" {
		return errors.New(strings.TrimSpace(text))
	}
	if text := names.String(); text != "" {
		return fmt.Errorf("not formatted, run gofmt -w:\n%s", strings.TrimSpace(text))
	}
	return nil
}

type selection func(context.Context, *runner) ([]string, error)

// changed returns the packages that a change affects; without git, all.
func changed(ctx context.Context, r *runner) ([]string, error) {
	t, err := r.tree()
	if err != nil {
		return nil, err
	}
	files, err := changedFiles(ctx, r)
	if err != nil {
		r.printf("   %v: all packages count as changed\n", err)
		return t.choose(func(*goPackage) bool { return true }), nil
	}
	return t.affected(files), nil
}

func vet(choose selection) action {
	return func(ctx context.Context, r *runner, out *output) error {
		packages, err := choose(ctx, r)
		if err != nil || len(packages) == 0 {
			return err
		}
		cmd := r.command(ctx, ".", nil, append([]string{"go", "vet"}, packages...)...)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
}

func all(_ context.Context, r *runner) ([]string, error) {
	t, err := r.tree()
	if err != nil {
		return nil, err
	}
	return t.patterns(), nil
}

// One run of golangci-lint serves the packages of all modules, because they share most of their dependencies.
func lint(choose selection) action {
	return func(ctx context.Context, r *runner, out *output) error {
		packages, err := choose(ctx, r)
		if err != nil || len(packages) == 0 {
			return err
		}
		for i, name := range packages { // golangci-lint knows folders alone
			if !strings.HasPrefix(name, "./") {
				packages[i] = "./" + strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
			}
		}
		// golangci-lint keeps the paths of its findings, so each clone needs a cache of its own. The caches are outside
		// of the clones, so that a new clone at the same path is linted in seconds.
		program, cache, err := r.linter()
		if err != nil {
			return err
		}
		cmd := r.command(ctx, ".", []string{"GOLANGCI_LINT_CACHE=" + cache}, append([]string{program, "run", "--allow-parallel-runners"}, packages...)...)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
}

// cross builds the library for other systems, and for 32 bits. The server has no files for single systems, and compiling
// its dependencies takes minutes: make cross-server builds it before a release.
func cross(ctx context.Context, r *runner, out *output) error {
	t, err := r.tree()
	if err != nil {
		return err
	}
	var patterns []string
	for _, m := range t.modules {
		if first, _, _ := strings.Cut(m, "/"); !slices.Contains([]string{"server", "e2e", "tools", "examples"}, first) {
			patterns = append(patterns, "./"+path.Join(m, "..."))
		}
	}
	for _, system := range [][]string{{"GOOS=linux", "GOARCH=386"}, {"GOOS=darwin", "GOARCH=arm64"}, {"GOOS=windows", "GOARCH=386"}} {
		cmd := r.command(ctx, ".", system, append([]string{"go", "build"}, patterns...)...)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(system, " "), err)
		}
	}
	return nil
}

const golangci = "v2.12.2"

// linter returns the path of golangci-lint and the folder of its cache, both in the user's cache.
func (r *runner) linter() (program, cache string, err error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(user, "gyro")
	return filepath.Join(dir, "golangci-lint-"+golangci, "golangci-lint"), filepath.Join(dir, fmt.Sprintf("lint-%x", sha256.Sum256([]byte(r.root)))), nil
}

func installLinter(ctx context.Context, r *runner, out *output) error {
	program, _, err := r.linter()
	if err != nil {
		return err
	}
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	cmd := r.command(ctx, ".", []string{"GOWORK=off", "GOBIN=" + filepath.Dir(program)}, "go", "install", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@"+golangci)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("installing golangci-lint: %w", err)
	}
	return nil
}

// testChanged runs the tests of changed packages without the race detector, and after a change of a page the
// documentation's tests that need no server.
func testChanged(ctx context.Context, r *runner, _ *output) error {
	t, err := r.tree()
	if err != nil {
		return err
	}
	names, err := changed(ctx, r)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		p := t.packages[name]
		return p.endToEnd() || p.service() || !p.tested()
	})
	if len(names) > 0 {
		if err := r.goTest(ctx, append([]string{"-short", "-parallel=8"}, names...)); err != nil {
			return err
		}
	}
	files, err := changedFiles(ctx, r)
	if err != nil || !slices.ContainsFunc(files, func(file string) bool { return path.Ext(file) == ".md" }) {
		return nil //nolint:nilerr // without git, the packages above were all
	}
	return r.goTest(ctx, []string{"-skip=TestPages", "./e2e/docs"})
}
