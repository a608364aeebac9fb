package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/gyrotest/need"
)

const limit = 30 * time.Minute

// runner runs the steps of a loop in the root of the repository.
type runner struct {
	ctx   context.Context
	root  string
	env   []string
	fresh bool
	tree  func() (*tree, error)
	// programs are the programs that tests find, once all that can be installed are.
	programs func() []string

	mu      sync.Mutex // of all below
	out     io.Writer
	results results
	failed  []string
}

func newRunner(ctx context.Context, out io.Writer, gyro string, fresh bool) (*runner, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	r := &runner{ctx: ctx, root: root, out: out, fresh: fresh}
	// With -trimpath the build cache serves each clone of the repository, whatever its folder.
	r.env = append(os.Environ(), "GOFLAGS="+goflags(os.Getenv("GOFLAGS")),
		"PYTHONDONTWRITEBYTECODE=1", "E2E_PYTHON="+filepath.Join(cache, "venv/bin/python"))
	if gyro != "" {
		r.env = append(r.env, strings.ReplaceAll(gyro, "$ROOT", root))
	}
	r.programs = sync.OnceValue(found)
	r.tree = sync.OnceValues(func() (*tree, error) { return readTree(ctx, r) })
	return r, nil
}

func found() []string {
	return slices.DeleteFunc(need.Programs(), func(program string) bool {
		_, there := need.Find(program)
		return !there
	})
}

func goflags(flags string) string {
	const trimpath = "-trimpath"
	if slices.Contains(strings.Fields(flags), trimpath) {
		return flags
	}
	return strings.TrimSpace(flags + " " + trimpath)
}

func (r *runner) run(l *loop) error {
	begin := time.Now()
	if l.installs {
		var programs []string
		for _, s := range slices.Concat(l.stages...) {
			programs = append(append(programs, s.needs...), s.wants...)
		}
		if err := installMissing(r.ctx, r.out, programs); err != nil {
			r.printf("%v\n", err) // steps without their programs are skipped, or fail with CI=true
		}
	}
	for _, stage := range l.stages {
		r.stage(stage, l.width)
		if r.ctx.Err() != nil || len(r.failed) > 0 && !l.thorough {
			break
		}
	}
	r.results.report(r.out)
	if err := r.ctx.Err(); err != nil {
		return fmt.Errorf("%s: interrupted", l.name)
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("%s: failed after %s: %s", l.name, since(begin), strings.Join(r.failed, ", "))
	}
	r.printf("%s: passed in %s\n", l.name, since(begin))
	return nil
}

// stage runs the steps of a stage, width at a time, in their order.
func (r *runner) stage(steps []step, width int) {
	var running sync.WaitGroup
	places := make(chan struct{}, max(width, 1))
	for _, s := range steps {
		places <- struct{}{}
		running.Go(func() {
			r.step(s)
			<-places
		})
	}
	running.Wait()
}

func (r *runner) step(s step) {
	for _, program := range s.needs {
		if _, ok := need.Find(program); !ok {
			r.lack(s.name, need.Line(program, "apt-get install "+need.Packages(program)))
			return
		}
	}
	r.printf("== %s: %s\n", s.name, s.about)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	var out output
	for _, do := range s.do {
		if err := do(ctx, r, &out); err != nil {
			if r.ctx.Err() == nil {
				r.fail(s.name, fmt.Sprintf("%s\n%v", strings.TrimSpace(out.String()), err))
			}
			r.printf("-- %s: FAILED after %s\n", s.name, since(begin))
			return
		}
	}
	r.printf("-- %s: %s\n", s.name, since(begin))
}

// lack notes that a step did not run for want of a program, which is a failure with CI=true.
func (r *runner) lack(step, line string) {
	if os.Getenv("CI") == "true" {
		r.fail(step, line)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results.skip(line, "the step "+step)
}

func (r *runner) fail(step, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, step)
	fmt.Fprintf(r.out, "\n%s\n", text)
}

func (r *runner) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

func since(t time.Time) string { return fmt.Sprintf("%.1f s", time.Since(t).Seconds()) }

// output is the output of a step. Several actions may write at once.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// command makes a command whose processes end with ctx. dir is below the root.
func (r *runner) command(ctx context.Context, dir string, env []string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(r.root, dir)
	own, _ := ctx.Value(variables{}).([]string)
	cmd.Env = slices.Concat(r.env, own, env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// variables is the key of variables of the environment in the context of actions.
type variables struct{}

// with runs an action with a variable of the environment; $ROOT in it stands for the folder of the repository.
func with(variable string, do action) action {
	return func(ctx context.Context, r *runner, out *output) error {
		own, _ := ctx.Value(variables{}).([]string)
		own = append(own[:len(own):len(own)], strings.ReplaceAll(variable, "$ROOT", r.root))
		return do(context.WithValue(ctx, variables{}, own), r, out)
	}
}

func sh(line string) action { return shIn(".", line) }

func shIn(dir, line string) action {
	return func(ctx context.Context, r *runner, out *output) error {
		cmd := r.command(ctx, dir, nil, "bash", "-c", "set -euo pipefail; . "+filepath.Join(r.root, "scripts/lib.sh")+"; "+line)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		return nil
	}
}

func together(actions ...action) action {
	return func(ctx context.Context, r *runner, out *output) error {
		errs := make([]error, len(actions))
		var running sync.WaitGroup
		for i, do := range actions {
			running.Go(func() {
				var own output
				if errs[i] = do(ctx, r, &own); errs[i] != nil {
					_, _ = io.WriteString(out, own.String()) // an output takes all
				}
			})
		}
		running.Wait()
		return errors.Join(errs...)
	}
}
