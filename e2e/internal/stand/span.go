package stand

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/atlas"
)

// Span has the counts and faults between Begin and End.
type Span struct {
	account.Counts
	Answers account.Answers
	Maps    atlas.Counts
	Health  []Health
	// Back is the time from the fault until all subscribers got publications again.
	Back time.Duration
	Ends map[string]int
	// Failures must not happen to a client or publisher; 20 at most.
	Failures []string
	// Evidence says when and where a publication was lost or came twice; 20 at most.
	Evidence []string
}

func (s *Stand) Begin() {
	s.collect()
}

func (s *Stand) Peek() account.Counts { return s.count(false) }

func (s *Stand) count(anew bool) account.Counts {
	var sum account.Counts
	for _, books := range s.books {
		for _, b := range books {
			sum.Add(b.Read(anew))
		}
	}
	return sum
}

func (s *Stand) collect() Span {
	span := Span{Counts: s.count(true), Answers: s.answers.Begin()}
	for _, w := range s.watches {
		span.Health = append(span.Health, w.begin())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	span.Failures, s.failures = s.failures, nil
	span.Evidence, s.proofs = s.proofs, nil
	s.began = time.Now()
	span.Ends, s.ends = s.ends, nil
	return span
}

// Recovered waits, once a fault has ended, until all nodes are fit, all publishers and subscribers go on, and no node
// has more goroutines and descriptors than before. Then it ends the span.
func (s *Stand) Recovered() Span {
	s.tb.Helper()
	start := time.Now()
	s.await("the health of all nodes", s.fit)
	s.caughtUp("publications for all")
	back := time.Since(start)
	inMaps, err := s.atlas.Compare(patience)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.await("the resources that the fault took", s.released)
	span := s.collect()
	span.Maps = inMaps
	span.Back = back
	return span
}

func (s *Stand) fit() bool {
	for _, w := range s.watches {
		if w.says() != fit {
			return false
		}
	}
	return true
}

// Unfit waits until node i says that it is not fit.
func (s *Stand) Unfit(i int) {
	s.tb.Helper()
	s.await(fmt.Sprintf("503 of node %d", i), func() bool { return s.watches[i].says() != fit })
}

// Flow waits until all subscribers have publications, and each map has an acknowledged change, from after the call.
func (s *Stand) Flow() {
	s.tb.Helper()
	changed := s.atlas.Changed()
	s.caughtUp("publications for all")
	s.await("a change of each map", changed)
}

func (s *Stand) AllAt(i int) {
	s.tb.Helper()
	s.await(fmt.Sprintf("all subscribers at node %d", i), func() bool {
		return !slices.ContainsFunc(s.subscribers, func(c *Subscriber) bool {
			return int(c.at.Load()) != i || !c.subscribed.Load()
		})
	})
}

// Failing waits until each publisher was told an error with this text.
func (s *Stand) Failing(text string) {
	s.tb.Helper()
	s.await("errors of publishers: "+text, func() bool {
		n := 0
		for kind, count := range s.answers.Peek().Errors {
			if strings.Contains(kind, text) {
				n += count
			}
		}
		return n >= len(s.publishers)
	})
}

type usage struct{ goroutines, descriptors int }

// How much more a node may use at times: for requests of publishers and watches.
const (
	goroutineSlack  = 30
	descriptorSlack = 15
)

// released tells whether no node uses more than at the beginning, or at the first call after its restart.
func (s *Stand) released() bool {
	visitors := int(s.visitors.Load())
	for i := range s.Nodes {
		now := s.use(i)
		if s.idle[i] == (usage{}) {
			s.idle[i] = now
		}
		if now.goroutines > s.idle[i].goroutines+goroutineSlack+visitors+s.moved(i) ||
			now.descriptors > s.idle[i].descriptors+descriptorSlack+visitors+s.moved(i) {
			return false
		}
	}
	return true
}

// moved counts the subscribers at node i that did not begin there.
func (s *Stand) moved(i int) int {
	n := s.atlas.Clients()
	for k, c := range s.subscribers {
		if k%len(s.Nodes) != i && int(c.at.Load()) == i {
			n++
		}
	}
	return n
}

func (s *Stand) use(i int) usage {
	s.tb.Helper()
	node := s.Nodes[i]
	client := http.Client{Timeout: answerTimeout}
	resp, err := client.Get("http://" + node.Addr + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		s.tb.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		s.tb.Fatal(err)
	}
	goroutines, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]))
	if err != nil {
		s.tb.Fatalf("goroutine profile: %q", line)
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", node.PID()))
	if err != nil {
		s.tb.Fatal(err)
	}
	return usage{goroutines: goroutines, descriptors: len(entries)}
}
