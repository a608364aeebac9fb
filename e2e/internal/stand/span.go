package stand

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Span is what happened between Begin and End.
type Span struct {
	Counts
	Answers Answers
	// Health of each node.
	Health []Health
	// Back is how long it took after the fault until everything was as before.
	Back time.Duration
	// Failures are what must not happen to a client or publisher.
	Failures []string
}

// Begin starts a span.
func (s *Stand) Begin() {
	s.collect()
}

// collect ends a span.
func (s *Stand) collect() Span {
	var span Span
	for _, c := range s.subscribers {
		span.add(c.book.begin())
	}
	for _, b := range s.sdkBooks {
		span.add(b.begin())
	}
	span.Answers = s.answers.begin()
	for _, w := range s.watches {
		span.Health = append(span.Health, w.begin())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	span.Failures, s.failures = s.failures, nil
	return span
}

// Recovered waits, once a fault has ended, until all nodes are fit, all publishers
// and subscribers go on, and the nodes hold no more goroutines and descriptors than
// before the first fault. Then it ends the span.
func (s *Stand) Recovered() Span {
	s.tb.Helper()
	start := time.Now()
	s.await("the health of all nodes", s.fit)
	s.caughtUp("publications for all")
	back := time.Since(start)
	s.await("the resources that the fault took", s.released)
	span := s.collect()
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

// Unfit waits until node i says that it is.
func (s *Stand) Unfit(i int) {
	s.tb.Helper()
	s.await(fmt.Sprintf("503 of node %d", i), func() bool { return s.watches[i].says() != fit })
}

// usage of a node.
type usage struct{ goroutines, descriptors int }

// slack is what comes and goes by itself: requests of the publishers, wake-ups.
const (
	goroutineSlack  = 30
	descriptorSlack = 15
)

// released tells whether the nodes are back to the resources of the beginning. A node
// that was restarted begins anew.
func (s *Stand) released() bool {
	for i := range s.Nodes {
		now := s.use(i)
		if s.idle[i] == (usage{}) {
			s.idle[i] = now
		}
		if now.goroutines > s.idle[i].goroutines+goroutineSlack+s.moved(i) ||
			now.descriptors > s.idle[i].descriptors+descriptorSlack+s.moved(i) {
			return false
		}
	}
	return true
}

// moved is how many subscribers are at node i that did not begin there.
func (s *Stand) moved(i int) int {
	n := 0
	for k, c := range s.subscribers {
		if k%len(s.Nodes) != i && int(c.at.Load()) == i {
			n++
		}
	}
	return n
}

// use asks a node for its goroutines, and the system for its descriptors.
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

func splitAddr(addr string) (string, int) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // it comes from a listener
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return host, port
}
