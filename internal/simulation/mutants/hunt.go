package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// hunt runs seeds with a mutant.
type hunt struct {
	root, work  string
	limit, hang time.Duration
	sound       string // the simulator's test without a mutant
}

// find is the outcome: the seed that failed, and the first line that says why.
type find struct {
	ok      bool
	took    time.Duration
	seed    string
	failure string
}

func (h hunt) run(m mutant) find {
	binary, err := h.build(m)
	if err != nil {
		return find{seed: "-", failure: "INVALID: " + err.Error()}
	}
	defer func() { _ = os.Remove(binary) }()
	begin := time.Now()
	for first := 1; ; {
		f := h.seeds(binary, first, h.limit-time.Since(begin))
		f.took = time.Since(begin)
		seed, err := strconv.Atoi(f.seed)
		if !f.ok || err != nil || h.passes(f.seed) {
			return f
		}
		fmt.Fprintf(os.Stderr, "seed %d fails without a mutant\n", seed)
		first = seed + 1
	}
}

// passes reports whether a seed passes without a mutant.
func (h hunt) passes(seed string) bool {
	return exec.Command(h.sound, "-test.run", "TestSeeds", "-seed", seed).Run() == nil
}

// seeds runs seeds in a process of their own, until one fails or the time is over.
func (h hunt) seeds(binary string, first int, limit time.Duration) find {
	cmd := exec.Command(binary, "-test.run", "TestSeeds", "-test.timeout", "0", "-first", strconv.Itoa(first), "-seeds", "1000000")
	cmd.Dir = filepath.Join(h.root, "internal/simulation")
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return find{seed: "-", failure: err.Error()}
	}
	lines := make(chan string)
	go read(r, lines)
	go func() {
		_ = cmd.Wait()
		_ = w.Close()
	}()
	f := h.watch(lines, limit)
	_ = cmd.Process.Kill()
	for range lines { // until the process has ended
	}
	return f
}

// build compiles the simulator's test with the mutant.
func (h hunt) build(m mutant) (binary string, err error) {
	overlay, err := h.overlay(m)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(h.work, m.Name+".test")
	return binary, h.compile(binary, "-overlay", overlay)
}

func (h hunt) compile(binary string, more ...string) error {
	cmd := exec.Command("go", append([]string{"test", "-c", "-vet=off", "-o", binary}, append(more, ".")...)...)
	cmd.Dir = filepath.Join(h.root, "internal/simulation")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.300s", err, out)
	}
	return nil
}

// overlay writes the file with the fault, and the list that tells the compiler of it.
func (h hunt) overlay(m mutant) (list string, err error) {
	file := filepath.Join(h.root, m.File)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return "", fmt.Errorf("%s has the text %d times", m.File, n)
	}
	mutated := filepath.Join(h.work, m.Name+".go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(text), m.Old, m.New, 1)), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		return "", err
	}
	list = filepath.Join(h.work, "overlay.json")
	return list, os.WriteFile(list, overlay, 0o600)
}

func read(r io.Reader, lines chan<- string) {
	defer close(lines)
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		lines <- s.Text()
	}
	_, _ = io.Copy(io.Discard, r)
}

// watch reads what a run tells, until a seed fails, panics or hangs, or the time is over.
func (h hunt) watch(lines <-chan string, limit time.Duration) find {
	over, seed := time.After(limit), "-"
	for {
		select {
		case line, ok := <-lines:
			name, begins := strings.CutPrefix(line, "SEED ")
			switch {
			case !ok:
				return find{ok: true, seed: seed, failure: "the process ends"}
			case begins:
				seed = name
			case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"):
				return find{ok: true, seed: seed, failure: shorten(line)}
			case strings.HasPrefix(line, "FAILURE "):
				return find{ok: true, seed: seed, failure: shorten(strings.TrimPrefix(line, "FAILURE "))}
			}
		case <-time.After(h.hang):
			return find{ok: true, seed: seed, failure: fmt.Sprintf("it hangs for %v", h.hang)}
		case <-over:
			return find{seed: seed, failure: "NOT FOUND"}
		}
	}
}

func shorten(line string) string {
	const most = 160
	if len(line) > most {
		return line[:most] + "…"
	}
	return line
}
