package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gyrohq/gyro/gyrotest/need"
)

func goTest(choose func(*tree) []string, flags ...string) action {
	return func(ctx context.Context, r *runner, out *output) error {
		t, err := r.tree()
		if err != nil {
			return err
		}
		packages := choose(t)
		if len(packages) == 0 {
			return nil
		}
		return r.goTest(ctx, append(flags[:len(flags):len(flags)], packages...))
	}
}

// testReaders runs go test for packages whose tests read files outside of their module. Go does not see changes of these
// files and would reuse results, so a flag of the command has the hash of the files.
func testReaders(flags ...string) action {
	return func(ctx context.Context, r *runner, out *output) error {
		t, err := r.tree()
		if err != nil {
			return err
		}
		alike := make(map[string][]string)
		for _, name := range readers(t) {
			hash, err := hashFiles(r.root, t.packages[name].foreign(t))
			if err != nil {
				return err
			}
			alike[hash] = append(alike[hash], name)
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(2)
		for _, hash := range slices.Sorted(maps.Keys(alike)) {
			group.Go(func() error {
				return r.goTest(ctx, slices.Concat(flags, []string{"-skip=^" + hash + "$"}, alike[hash]))
			})
		}
		return group.Wait()
	}
}

func hashFiles(root string, names []string) (string, error) {
	hash := sha256.New()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		err := filepath.WalkDir(filepath.Join(root, name), func(file string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // a string that is no name of a file
				return nil
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains(made, entry.Name()):
				return filepath.SkipDir
			case !entry.Type().IsRegular():
				return nil
			}
			content, err := os.ReadFile(file)
			fmt.Fprintf(hash, "%s %x\n", strings.TrimPrefix(file, root), sha256.Sum256(content))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// made are names of folders whose files are made or installed by programs.
var made = []string{".git", ".cache", ".bin", "node_modules", "dist"}

// goTestIn runs go test without kept results.
func goTestIn(args ...string) action {
	return func(ctx context.Context, r *runner, out *output) error {
		return r.goTest(ctx, append([]string{"-count=1"}, args...))
	}
}

// goTest prints the output of a failed package when the package ends.
func (r *runner) goTest(ctx context.Context, args []string) error {
	argv := []string{"go", "test", "-json", "-vet=off"} // there is a step for vet
	if r.fresh {
		argv = append(argv, "-count=1")
	}
	cmd := r.command(ctx, ".", []string{need.Known + "=" + strings.Join(r.programs(), " ")}, append(argv, args...)...)
	var stderr output
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := progress{r: r, begin: time.Now(), failing: make(map[string]*strings.Builder)}
	readErr := p.read(stdout)
	err = cmd.Wait()
	if readErr != nil {
		return readErr
	}
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, stderr.String())
	}
	return nil
}

type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

type progress struct {
	r     *runner
	begin time.Time
	told  time.Time
	ended int
	// failing has the output of packages and builds so far, by name. The output of a package is dropped when it passes.
	failing map[string]*strings.Builder
}

const pause = 30 * time.Second

func (p *progress) read(stdout io.Reader) error {
	p.told = time.Now()
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if jsonErr := json.Unmarshal(line, &e); jsonErr != nil {
				return fmt.Errorf("go test -json printed %q: %w", line, jsonErr)
			}
			p.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *progress) take(e event) {
	name := cmp.Or(e.Package, e.ImportPath)
	switch e.Action {
	case "output", "build-output":
		b := p.failing[name]
		if b == nil {
			b = new(strings.Builder)
			p.failing[name] = b
		}
		b.WriteString(e.Output)
		if at := strings.Index(e.Output, ": "+need.Prefix); at >= 0 {
			p.r.mu.Lock()
			p.r.results.skip(strings.TrimSpace(e.Output[at+2:]), e.Package+" "+e.Test)
			p.r.mu.Unlock()
		}
	case "pass", "fail", "skip":
		p.r.mu.Lock()
		p.r.results.add(e)
		p.r.mu.Unlock()
		if e.Test == "" {
			p.end(e, name)
		}
	}
}

func (p *progress) end(e event, name string) {
	p.ended++
	text := ""
	if e.Action == "fail" {
		if b := p.failing[e.FailedBuild]; b != nil && e.FailedBuild != name {
			text = b.String()
		}
		if b := p.failing[name]; b != nil {
			text += relevant(b.String())
		}
		p.r.printf("\n%s\n", strings.TrimSpace(text))
	}
	delete(p.failing, name)
	if time.Since(p.told) >= pause {
		p.told = time.Now()
		p.r.printf("   %d packages after %s\n", p.ended, since(p.begin))
	}
}

// relevant leaves out the lines of a package's output that say that a test begins, waits or passes.
func relevant(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		word := strings.TrimSpace(line)
		if !strings.HasPrefix(word, "=== ") && !strings.HasPrefix(word, "--- PASS") && !strings.HasPrefix(word, "--- SKIP") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

type results struct {
	passed, failed, skipped int
	packages, tests         map[string]float64 // seconds
	wants                   map[string]map[string]bool
}

func (s *results) add(e event) {
	if s.tests == nil {
		s.packages, s.tests = make(map[string]float64), make(map[string]float64)
	}
	if e.Test == "" {
		s.packages[e.Package] = max(s.packages[e.Package], e.Elapsed)
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
	case "skip":
		s.skipped++
	}
	if !strings.Contains(e.Test, "/") {
		name := e.Package + " " + e.Test
		s.tests[name] = max(s.tests[name], e.Elapsed)
	}
}

// skip notes that a test, or a step, was skipped for lack of the program in the line.
func (s *results) skip(line, who string) {
	if s.wants == nil {
		s.wants = make(map[string]map[string]bool)
	}
	if s.wants[line] == nil {
		s.wants[line] = make(map[string]bool)
	}
	s.wants[line][who] = true
}

const most = 10

func (s *results) report(out io.Writer) {
	if s.passed+s.failed+s.skipped > 0 {
		fmt.Fprintln(out, "\nThe slowest packages:")
		slowest(out, s.packages)
		fmt.Fprintln(out, "The slowest tests:")
		slowest(out, s.tests)
	}
	if len(s.wants) > 0 {
		fmt.Fprintln(out, "\nSkipped:")
		for _, line := range slices.Sorted(maps.Keys(s.wants)) {
			who := slices.Sorted(maps.Keys(s.wants[line]))
			text := who[0]
			if len(who) > 1 {
				text = fmt.Sprintf("%d tests, such as %s", len(who), text)
			}
			fmt.Fprintf(out, "  %s (%s)\n", line, text)
		}
	}
	if s.passed+s.failed+s.skipped > 0 {
		fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	}
}

func slowest(out io.Writer, seconds map[string]float64) {
	names := slices.SortedFunc(maps.Keys(seconds), func(a, b string) int {
		return cmp.Or(-cmp.Compare(seconds[a], seconds[b]), cmp.Compare(a, b))
	})
	for _, name := range names[:min(most, len(names))] {
		fmt.Fprintf(out, "  %6.1f s  %s\n", seconds[name], strings.TrimPrefix(name, module+"/"))
	}
}
