package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runLimit is the real time after which a run counts as hanging.
const runLimit = 2 * time.Minute

// child runs plans in a process of its own, because a deadlock of a run ends its process.
type child struct {
	program string // the test binary
	run     string // the test that runs plans
	folder  string // for files of plans
}

// fails runs a plan, and returns what was wrong; empty: nothing.
func (c child) fails(p *plan) (string, error) {
	file, err := os.CreateTemp(c.folder, "plan-*.json")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(json.NewEncoder(file).Encode(p), file.Close()); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.program, "-test.run", c.run, "-plan", file.Name()).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "the run hangs", nil
	case err == nil:
		return "", nil
	}
	return firstFailure(out), nil
}

// seeds runs plans of successive seeds. It returns how many it has run, and the seed that failed or 0.
func (s *searcher) seeds(from uint64, n int) (done int, bad uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit+time.Duration(n)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, "-test.run", "^TestSeeds$", "-engine", *engines, "-first", fmt.Sprint(from), "-seeds", fmt.Sprint(n))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	last := from
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "SEED "); ok {
			last, _ = strconv.ParseUint(strings.TrimSpace(text), 10, 64)
			done++
		}
		if text, ok := strings.CutPrefix(line, "PAIRS "); ok {
			s.add([]byte(text))
		}
	}
	if err != nil {
		return done, last
	}
	return done, 0
}

func (s *searcher) add(table []byte) {
	var list []strike
	if json.NewDecoder(bytes.NewReader(table)).Decode(&list) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range list {
		s.hit[[2]string{k.Moment, k.Fault}] += k.Nth
	}
}

// firstFailure is the first line of a child's output that says what was wrong.
func firstFailure(out []byte) string {
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "FAILURE ") || strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
			return text
		}
	}
	return string(out[:min(len(out), 2000)])
}

// shrink returns a smaller plan that fails, too: without steps, strikes and clients that do not matter. It ends after a
// time.
func shrink(p *plan, fails func(*plan) bool, until time.Time) *plan {
	try := func(change func(*plan)) bool {
		if time.Now().After(until) {
			return false
		}
		smaller := p.clone()
		if change(smaller); !fails(smaller) {
			return false
		}
		p = smaller
		return true
	}
	for size := max(len(p.Steps)/2, 1); ; size /= 2 {
		for at := 0; at < len(p.Steps); {
			if !try(func(s *plan) { s.Steps = slices.Delete(s.Steps, at, min(at+size, len(s.Steps))) }) {
				at += size
			}
		}
		if size <= 1 {
			break
		}
	}
	for at := 0; at < len(p.Strikes); {
		if !try(func(s *plan) { s.Strikes = slices.Delete(s.Strikes, at, at+1) }) {
			at++
		}
	}
	for _, n := range []func(*plan) *int{
		func(p *plan) *int { return &p.Clients }, func(p *plan) *int { return &p.Nodes },
	} {
		for *n(p) > 1 && (try(func(s *plan) { *n(s) /= 2 }) || try(func(s *plan) { *n(s)-- })) {
		}
	}
	for at := 0; at < len(p.Names) && len(p.Names) > 1; {
		if !try(func(s *plan) { s.Names = slices.Delete(s.Names, at, at+1) }) {
			at++
		}
	}
	for i := range reflect.TypeFor[settings]().NumField() {
		try(func(s *plan) { reflect.ValueOf(&s.Network).Elem().Field(i).SetZero() })
	}
	return p
}

func (p *plan) clone() *plan {
	c := *p
	c.Steps, c.Strikes, c.Names = slices.Clone(p.Steps), slices.Clone(p.Strikes), slices.Clone(p.Names)
	return &c
}

func (p *plan) String() string {
	return fmt.Sprintf("seed %d: %d nodes, %d clients, channels %q, %d steps, strikes %v, %+v", p.Seed, p.Nodes, p.Clients, p.Names, len(p.Steps), p.Strikes, p.Network)
}
