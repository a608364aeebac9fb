package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seed    = flag.Uint64("seed", 0, "run the plan of this seed alone, and print its log")
	steps   = flag.Int("steps", -1, "run no more than this many steps of a plan")
	file    = flag.String("plan", "", "run the plan in this file alone")
	trace   = flag.Bool("trace", false, "print the log of -plan")
	engines = flag.String("engine", onReference, "the engine of all plans: reference, redis or stale-redis")
	first   = flag.Uint64("first", 1, "the first seed of TestSeeds and TestSearch; 0: a new one")
	seeds   = flag.Int("seeds", 20, "how many seeds TestSeeds runs")
	search  = flag.Duration("search", 0, "how long TestSearch looks for seeds that fail")
	workers = flag.Int("workers", runtime.GOMAXPROCS(0), "processes of TestSearch")
	found   = flag.String("found", "found", "where TestSearch puts the plans that fail")
)

// A run makes 14 MB of garbage and keeps little: rarer collections save a seventh of its time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// play runs a plan. It prints what was wrong, and the log if it is asked to show it.
func play(t *testing.T, p *plan, hit pairs, logged, show bool) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.Seed)
		var failures []string
		lines, failures = simulate(p, hit, logged)
		if show {
			fmt.Println(strings.Join(lines, "\n"))
		}
		for _, f := range failures {
			fmt.Println("FAILURE", f)
			t.Error(f)
		}
	})
	return lines
}

func TestSeeds(t *testing.T) {
	if *seed != 0 {
		p := planOf(*seed)
		if *steps >= 0 {
			p.Steps = p.Steps[:min(*steps, len(p.Steps))]
		}
		play(t, p, pairs{}, true, true)
		return
	}
	if *file != "" || *search > 0 {
		t.Skip("a plan or a search is asked for")
	}
	hit := pairs{}
	defer func() { // also after a failure
		table, err := json.Marshal(hit.list())
		fmt.Printf("PAIRS %s %v\n", table, err)
	}()
	begin := cmp.Or(*first, uint64(time.Now().UnixMilli()))
	for i := range uint64(*seeds) {
		s := begin + i
		fmt.Println("SEED", s)
		play(t, planOf(s), hit, false, false)
		if t.Failed() {
			t.Fatalf("seed %d fails: go test ./internal/simulation -run TestSeeds -seed %[1]d", s)
		}
	}
}

// planOf returns the plan of a seed.
func planOf(seed uint64) *plan { return newPlan(seed).on(*engines) }

// TestPlan runs the plan of a file, for TestSearch and for people.
func TestPlan(t *testing.T) {
	if *file == "" {
		t.Skip("there is no -plan")
	}
	play(t, load(t, *file), pairs{}, *trace, *trace)
}

func load(t *testing.T, name string) *plan {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p := new(plan)
	if err := json.Unmarshal(data, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKnown runs all plans that ever failed: testdata has a file for each, made by TestSearch.
func TestKnown(t *testing.T) {
	if *seed != 0 || *file != "" || *search > 0 {
		t.Skip("a seed, a plan or a search is asked for")
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) { play(t, load(t, f), pairs{}, false, false) })
	}
}

// TestRepeats: the log of a seed is the same in each process, with one processor and with two. On Redis some logs differ.
func TestRepeats(t *testing.T) {
	if *seed != 0 || *file != "" || *search > 0 {
		t.Skip("a seed, a plan or a search is asked for")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for s := range 3 {
		logs := [2][]string{logOf(t, program, 1+s, 1), logOf(t, program, 1+s, 2)}
		for i, line := range logs[0] {
			if other := append(logs[1], "the end")[min(i, len(logs[1]))]; line != other {
				t.Fatalf("seed %d, line %d:\n%s\nthen:\n%s", 1+s, i, line, other)
			}
		}
	}
}

// timed is a line of a log.
var timed = regexp.MustCompile(`^[ \d]\d\.\d{6} `)

func logOf(t *testing.T, program string, seed, processors int) []string {
	cmd := exec.Command(program, "-test.run", "^TestSeeds$", "-seed", fmt.Sprint(seed))
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", processors))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, out)
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return !timed.MatchString(line) })
}

// TestSearch runs new seeds in several processes. It shrinks the plans that fail, and keeps them.
func TestSearch(t *testing.T) {
	if *search == 0 {
		t.Skip("there is no -search")
	}
	program, err := os.Executable()
	if err := errors.Join(err, os.MkdirAll(*found, 0o777)); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(*search)
	var wg sync.WaitGroup
	s := &searcher{t: t, child: child{program, "^TestPlan$", t.TempDir()}, hit: pairs{}}
	s.next = cmp.Or(*first, uint64(time.Now().UnixMilli())<<10)
	fmt.Println("from seed", s.next)
	for range *workers {
		wg.Go(func() {
			for time.Now().Before(until) {
				s.block(until)
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d runs, %d failed\n%s\n", s.runs, s.failed, s.hit.table())
}

// searcher has the results of all processes.
type searcher struct {
	t *testing.T
	child
	mu     sync.Mutex
	next   uint64
	runs   int
	failed int
	hit    pairs
}

// blockSize is how many seeds a process runs.
const blockSize = 100

// block runs a block of seeds in a process. After a failure the next block begins behind it.
func (s *searcher) block(until time.Time) {
	s.mu.Lock()
	from := s.next
	s.next += blockSize
	s.mu.Unlock()
	for n := 0; n < blockSize && time.Now().Before(until); {
		done, bad := s.seeds(from+uint64(n), blockSize-n)
		n += done
		s.mu.Lock()
		s.runs += done
		s.mu.Unlock()
		if bad == 0 {
			continue
		}
		s.keep(planOf(bad))
	}
}

// keep shrinks a plan that fails and writes it to a file.
func (s *searcher) keep(p *plan) {
	fails := func(p *plan) bool {
		text, err := s.fails(p)
		if err != nil {
			s.t.Error(err)
		}
		return text != ""
	}
	s.mu.Lock()
	s.failed++
	s.mu.Unlock()
	again := fails(p)
	if again {
		p = shrink(p, fails, time.Now().Add(2*time.Minute))
	}
	text, _ := s.fails(p)
	name := filepath.Join(*found, fmt.Sprintf("%d.json", p.Seed))
	data, err := json.MarshalIndent(p, "", "\t")
	if err := errors.Join(err, os.WriteFile(name, data, 0o666)); err != nil {
		s.t.Error(err)
	}
	s.t.Errorf("%v\n%s\nagain %v; go test ./internal/simulation -run TestPlan -trace -plan %s", p, text, again, name)
	fmt.Println("FAILED", p.Seed, text)
}

// list has the pairs in an order, for JSON.
func (p pairs) list() (list []strike) {
	for k, n := range p {
		list = append(list, strike{k[0], k[1], n})
	}
	slices.SortFunc(list, func(a, b strike) int { return strings.Compare(a.Moment+a.Fault, b.Moment+b.Fault) })
	return list
}
