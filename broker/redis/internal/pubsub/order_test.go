package pubsub

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Whatever the handler's pace, and whichever goroutine reads: messages of a channel
// arrive in order, and what is missing is told.
func TestOrder(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(s *stand) { testOrder(s, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func testOrder(s *stand, random *rand.Rand) {
	var channels []string
	for i := range 5 {
		channels = append(channels, fmt.Sprint("ch", i))
	}
	pauses := rand.New(rand.NewPCG(random.Uint64(), 3))
	note := s.cfg.Message
	active := 0 // also found by the race detector
	s.cfg.Message = func(channel, payload []byte, memory *Chunk) {
		if active++; active > 1 {
			s.Error("called concurrently")
		}
		if pauses.IntN(10) == 0 {
			time.Sleep(time.Duration(pauses.IntN(200)) * time.Millisecond)
		}
		note(channel, payload, memory)
		active--
	}
	s.cfg.MaxQueue = 1 << random.IntN(9)
	s.cfg.MaxStall = time.Duration(1+random.IntN(500)) * time.Millisecond
	s.start()
	s.subscribe(channels...)
	last := make(map[string]int)
	for range 3000 {
		ch := channels[random.IntN(len(channels))]
		last[ch]++
		s.publish(ch, strconv.Itoa(last[ch]))
		switch random.IntN(300) {
		case 0:
			s.server.cut()
		case 1, 2, 3:
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		default:
			time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		}
	}
	time.Sleep(5 * time.Minute)
	s.healthy()
	checkOrder(s, s.events(), last)
}

// checkOrder goes through what the callbacks got.
func checkOrder(s *stand, log []string, last map[string]int) {
	s.Helper()
	seen, missing := make(map[string]int), make(map[string]bool)
	told := make(map[string]bool) // since the newest message of the channel
	gap := func(ch string) { missing[ch] = !told[ch] }
	gaps, overflows := 0, 0
	for _, e := range log {
		switch what, rest, _ := strings.Cut(e, " "); what {
		case "resubscribed":
			for ch := range last {
				told[ch], missing[ch] = true, false
			}
		case "overflow":
			overflows++
			for _, ch := range strings.Fields(strings.Trim(rest, "[]")) {
				told[ch], missing[ch] = true, false
			}
		default:
			n, _ := strconv.Atoi(rest)
			if n <= seen[what] {
				s.Fatalf("%s after %d", e, seen[what])
			}
			if n > seen[what]+1 {
				gaps++
				gap(what)
			}
			seen[what], told[what] = n, false
		}
	}
	for ch, n := range last {
		if seen[ch] < n {
			gap(ch)
		}
		if missing[ch] {
			s.Errorf("messages of %s are missing, and nobody was told", ch)
		}
	}
	s.Logf("%d events, %d gaps, %d overflows, %+v", len(log), gaps, overflows, s.conn.Stats())
}
