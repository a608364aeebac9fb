//go:build linux

package operator

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/wire"
)

type options struct {
	clients int
	steps   []string // names; none for all
	out     string
	limit   time.Duration
}

type run struct {
	*stand
	fleet *fleet
	watch *watch
	opts  options
	firer string // the program tools/firing
	begun time.Time
	usual map[finding]bool // what gyro doctor says while nothing happens
	rows  []*row
	now   *row
}

type row struct {
	step
	tally
	begin, over, back time.Time
	end               time.Time
	told, logged      []string
	remarks           []string
	doctor            []finding
	alerts            []string
	err               error
}

// perform fails if a publication is lost or comes twice, or if clients do not come back.
func perform(t *testing.T, o options) {
	list := choose(t, o.steps)
	// A Ctrl-C ends the run, with the table of what there is.
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o.check(t)
	r := &run{opts: o, usual: make(map[finding]bool)}
	r.firer = filepath.Join(t.TempDir(), "firing")
	if out, err := exec.Command("go", "build", "-o", r.firer, "github.com/gyrohq/gyro/tools/firing").CombinedOutput(); err != nil {
		t.Fatalf("building tools/firing: %v\n%s", err, out)
	}
	r.stand = newStand(ctx, t, o.out)
	if slices.ContainsFunc(list, func(s step) bool { return s.name == "upgrade" }) {
		if err := r.build(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.watch, err = newWatch(r.stand, o.out); err != nil {
		t.Fatal(err)
	}
	defer r.finish() // also if the test ends within a step
	began := time.Now()
	if r.fleet, err = newFleet(r.stand, o.clients); err != nil {
		t.Fatal(err)
	}
	if err := r.fleet.caughtUp(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d clients are connected, after %.0f s", o.clients, time.Since(began).Seconds())
	r.fleet.collect()
	for _, f := range r.stand.doctor() {
		r.usual[f] = true
	}
	r.begun = time.Now()
	for _, s := range list {
		if ctx.Err() != nil || time.Since(r.begun) > o.limit {
			t.Errorf("%s and what follows is left out: the run was interrupted, or took more than %v", s.name, o.limit)
			break
		}
		r.do(s)
	}
	r.fleet.stop()
	if err := r.fleet.top("the last publications"); err != nil {
		t.Error(err)
	}
}

func choose(t *testing.T, names []string) (list []step) {
	t.Helper()
	if len(names) == 0 {
		return steps
	}
	for _, name := range names {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range steps {
				known = append(known, s.name)
			}
			t.Fatalf("there is no step %q; there are %s", name, strings.Join(known, ", "))
		}
		list = append(list, steps[i])
	}
	return list
}

// check refuses more clients than descriptors suffice for.
func (o options) check(t *testing.T) {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	// nginx has two connections for each client, also while a client that left comes back.
	if need := uint64(4*o.clients + 1000); files.Max < need || o.clients > 4000 {
		t.Fatalf("%d clients take %d descriptors of a process, and the limit is %d (ulimit -Hn); 4000 clients are the most", o.clients, need, files.Max)
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		t.Fatal(err)
	}
}

func (r *run) pause(seconds int) { wire.Sleep(r.ctx, time.Duration(seconds)*time.Second) }

func (r *run) remark(text string) { r.now.remarks = append(r.now.remarks, text) }

// examine notes the findings of gyro doctor that it does not have while nothing happens.
func (r *run) examine() {
	for _, f := range r.doctor() {
		if !r.usual[f] {
			r.now.doctor = append(r.now.doctor, f)
		}
	}
}

// calm is the pause after a step, so that the next one begins with nodes that are well.
const calm = 5 * time.Second

func (r *run) do(s step) {
	r.now = &row{step: s, begin: time.Now()}
	r.rows = append(r.rows, r.now)
	since := r.logSizes()
	defer func() { // redistest may end the test
		w := r.now
		w.end = time.Now()
		w.tally = r.fleet.collect()
		w.told, w.logged = r.watch.told(w.begin, w.end), r.logged(since)
		r.tb.Log("\n" + w.line())
		for _, text := range w.details() {
			r.tb.Log("  " + r.names.Replace(text))
		}
	}()
	err := s.run(r)
	r.now.over = time.Now()
	err = errors.Join(err, r.well(), r.fleet.caughtUp())
	r.now.back = time.Now()
	wire.Sleep(r.ctx, calm)
	r.now.err = err
}

func (r *run) well() error {
	return r.until("nodes that are well", func() bool {
		return !slices.ContainsFunc(r.nodes, func(n *node) bool { return r.ready(n) != nil || r.overview(n) != nil })
	})
}

func (r *run) finish() {
	if err := r.judge(); err != nil {
		r.tb.Error(err)
	}
	file, err := r.watch.close()
	if err != nil {
		r.tb.Error(err)
		return
	}
	if err := r.alerts(file); err != nil {
		r.tb.Error(err)
	}
	text := r.table()
	name := filepath.Join(r.opts.out, "table.md")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.tb.Error(err)
	}
	r.tb.Logf("%s\nin %s: table.md, scrapes.jsonl.gz, logs", text, r.opts.out)
}

func (r *run) judge() error {
	var errs []error
	for _, w := range r.rows {
		if lost, twice := w.Lost+w.Pages.Lost, w.Duplicated+w.Pages.Duplicated; lost+twice > 0 {
			errs = append(errs, fmt.Errorf("%s: %d lost and %d twice on channels with recovery: %s", w.name, lost, twice, strings.Join(w.Proofs, "; ")))
		}
		if len(w.Failures) > 0 {
			errs = append(errs, fmt.Errorf("%s: clients were refused: %s", w.name, strings.Join(w.Failures, "; ")))
		}
		if w.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.name, w.err))
		}
	}
	return errors.Join(errs...)
}

const header = `| step | took | clients that lost the connection | longest away | lost / twice (recoverable) | told | failed API calls | plain channel: lost | longest silence |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

func (w *row) line() string {
	return fmt.Sprintf("| %s | %.0f s | %d | %s | %d / %d | %d | %d | %d | %.1f s |", w.title, w.over.Sub(w.begin).Seconds(), w.Left, &w.absences,
		w.Lost, w.Duplicated, w.Told, w.Answers.Failed(), w.Plain, w.Silence.Seconds())
}

func (w *row) details() (list []string) {
	add := func(what string, texts ...string) {
		for _, text := range texts {
			list = append(list, what+": "+text)
		}
	}
	if w.err != nil {
		add("**failed**", w.err.Error())
	}
	add("remark", w.remarks...)
	if !w.back.IsZero() {
		add("back", fmt.Sprintf("all nodes well and all clients at the top of their streams %.1f s after the end", w.back.Sub(w.over).Seconds()))
	}
	if w.Answers.Failed() > 0 {
		add("API", w.Answers.String())
	}
	if w.Insufficient > 0 {
		add("subscriptions", fmt.Sprintf("%d ended for insufficient state, and were made anew", w.Insufficient))
	}
	if w.PagesAway.Left+w.Pages.Lost+w.Pages.Duplicated+w.Pages.Told > 0 {
		add("EventSource", fmt.Sprintf("%d of %d lost the connection, longest away %v; %d lost, %d twice, %d told",
			w.PagesAway.Left, sources, &w.PagesAway, w.Pages.Lost, w.Pages.Duplicated, w.Pages.Told))
	}
	if w.Again > 0 {
		add("plain channel", fmt.Sprintf("%d came twice", w.Again))
	}
	for _, f := range w.Failures {
		add("client", f)
	}
	list = append(list, w.told...)
	for _, f := range w.doctor {
		add("doctor", f.Status+" "+f.Area+": "+f.Text)
	}
	add("log", w.logged...)
	add("alert", w.alerts...)
	return list
}

func (r *run) table() string {
	var b strings.Builder
	received, acked := 0, 0
	for _, w := range r.rows {
		received += w.Received
		acked += w.Answers.OK
	}
	fmt.Fprintf(&b, "# A cluster under an operator's faults\n\n%s, %d processors, %d clients, %d nodes, %d + 1 channels. %.0f min; %d publications acknowledged, %d deliveries on channels with recovery.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), r.opts.clients, len(r.nodes), channels, time.Since(r.begun).Minutes(), acked, received)
	b.WriteString(header)
	for _, w := range r.rows {
		b.WriteString(w.line() + "\n")
	}
	b.WriteString("\nTimes of what was said and of alerts count from the begin of the step.\n")
	for _, w := range r.rows {
		fmt.Fprintf(&b, "\n## %s\n\n", w.title)
		for _, text := range w.details() {
			fmt.Fprintf(&b, "* %s\n", strings.ReplaceAll(r.names.Replace(text), "\n", " "))
		}
	}
	return b.String()
}
