//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestTable makes the table of docs/scaling.md.
func TestTable(t *testing.T) {
	if *sizes == "" {
		t.Skip("-sizes says how many nodes there are")
	}
	for name := range strings.SplitSeq(*engines, ",") {
		for size := range strings.SplitSeq(*sizes, ",") {
			n, err := strconv.Atoi(size)
			if err != nil || n < 2 {
				t.Fatalf("-sizes: %q is not a number of nodes", size)
			}
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) { table(t, name, n) })
		}
	}
}

func table(t *testing.T, name string, n int) {
	began := time.Now()
	f := newFleet(t, newEngine(t, name, *shards), n)
	f.know(f.all(), n)
	t.Logf("all %d nodes know all: %.1f s after the start of the first, started four at a time", n, time.Since(began).Seconds())
	idle(t, f)
	for i := range f.nodes { // somebody is there in all that follows
		f.client(i, fmt.Sprintf("user-%d", i), "plain:all", fmt.Sprintf("plain:%d", i))
	}
	for part := range strings.SplitSeq(*parts, ",") {
		switch part {
		case "idle":
		case "fanout":
			fanOut(t, f)
		case "calls":
			callAll(t, f, "calm")
			busy(t, f)
		case "commands":
			command(t, f)
		case "storm":
			storm(t, f)
		case "suspended":
			lose(t, f, true)
		case "killed":
			lose(t, f, false)
		case "rolling":
			roll(t, f)
		default:
			t.Fatalf("-parts: no %q", part)
		}
	}
}

func idle(t *testing.T, f *fleet) {
	n := float64(len(f.nodes))
	time.Sleep(10 * time.Second) // the memory of the start is given back
	cpu, wakeups, at, before := f.cpu(), f.wakeups(), time.Now(), f.engine.work(t)
	time.Sleep(*window)
	took := time.Since(at).Seconds()
	cpu, wakeups = f.cpu()-cpu, f.wakeups()-wakeups
	w := f.engine.work(t).since(before)
	t.Logf("idle CPU: nodes together %.2f%% of a core, %.0f wake-ups/s per node; engine %.2f%%", cpu.Seconds()/took*100, float64(wakeups)/took/n, w.cpu.Seconds()/took*100)
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(w.calls)) {
		kinds = append(kinds, fmt.Sprintf("%s %.1f", kind, float64(w.calls[kind])/took))
	}
	t.Logf("idle engine: per second %s; %.1f KB in, %.1f KB out", strings.Join(kinds, ", "), float64(w.in)/took/1e3, float64(w.out)/took/1e3)
	var rss, pss int64
	for _, node := range f.nodes {
		r, p := memoryOf(t, node.PID())
		rss, pss = rss+r, pss+p
	}
	t.Logf("memory: nodes together PSS %.0f MB; each RSS %.1f MB, PSS %.1f MB", float64(pss)/1e6, float64(rss)/n/1e6, float64(pss)/n/1e6)
	all, pubsub := f.engine.connections()
	t.Logf("connections: %d, which is %.1f per node (%.1f of them for PUB/SUB)", all, float64(all)/n, float64(pubsub)/n)
	heard, stop := f.listen()
	time.Sleep(*window)
	stop()
	for _, kind := range slices.Sorted(maps.Keys(heard.messages)) {
		m, b := float64(heard.messages[kind]), float64(heard.bytes[kind])
		t.Logf("told to all: %s: each node receives %.2f/s and %.0f bytes/s, sends %.2f/s and %.0f bytes/s, %.0f bytes each",
			kind, m/window.Seconds(), b/window.Seconds(), m/window.Seconds()/n, b/window.Seconds()/n, b/m)
	}
}

func fanOut(t *testing.T, f *fleet) {
	const rate, lasts = 50, 10 * time.Second
	name := "plain:fan"
	if f.engine.history() {
		name = "kept:fan"
	}
	var mu sync.Mutex
	var took []time.Duration
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for i := range f.nodes {
		_, subs := f.client(i, fmt.Sprintf("fan-%d", i), name)
		publications := subs[0].Publications(ctx)
		readers.Go(func() {
			for p, err := range publications {
				var data struct{ At int64 }
				if err != nil || json.Unmarshal(p.Data, &data) != nil {
					continue
				}
				mu.Lock()
				took = append(took, time.Duration(time.Now().UnixNano()-data.At))
				mu.Unlock()
			}
		})
	}
	time.Sleep(2 * time.Second)
	cpu, at, before := f.cpu(), time.Now(), f.engine.work(t)
	var buffered int64
	sent := 0
	for tick := time.NewTicker(time.Second / rate); time.Since(at) < lasts; <-tick.C {
		params := map[string]any{"channel": name, "data": map[string]any{"at": time.Now().UnixNano(), "text": strings.Repeat("x", 100)}}
		if err := f.call(ctx, sent%len(f.nodes), "publish", params, nil); err != nil {
			t.Fatal(err)
		}
		sent++
		if sent%rate == 0 {
			buffered = max(buffered, f.engine.buffered(t))
		}
	}
	seconds := time.Since(at).Seconds()
	w, cpu := f.engine.work(t).since(before), f.cpu()-cpu
	whole := wait.Within(10*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(took) == sent*len(f.nodes)
	})
	cancel()
	readers.Wait()
	slices.Sort(took)
	t.Logf("fan-out: %d publications in %.1f s to a subscriber on each node, all arrived: %v; p50 %s, p99 %s, max %s; engine %.1f%% of a core, %.0f KB/s out, nodes together %.1f%%; most bytes in an output buffer %d",
		sent, seconds, whole, ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), ms(quantile(took, 1)), w.cpu.Seconds()/seconds*100, float64(w.out)/seconds/1e3, cpu.Seconds()/seconds*100, buffered)
}

// callAll makes each call 100 times, one after the other, at one node after the other.
func callAll(t *testing.T, f *fleet, state string, but ...int) {
	at := f.all(but...)
	for _, c := range f.calls() {
		var o outcomes
		began := time.Now()
		for k := range 100 {
			o.add(began, c, at[k%len(at)])
			if c.name == "admin nodes" && k%len(at) == len(at)-1 {
				time.Sleep(time.Second) // a node answers the same within a second
			}
		}
		t.Logf("%s: %-14s %v", state, c.name, &o)
	}
}

// busy: one node has all it can do.
func busy(t *testing.T, f *fleet) {
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for ctx.Err() == nil {
				_ = f.call(ctx, 0, "publish", map[string]any{"channel": "plain:0", "data": map[string]any{}}, nil) // ends with ctx
			}
		})
	}
	callAll(t, f, "one node busy", 0)
	cancel()
	load.Wait()
}

func command(t *testing.T, f *fleet) {
	const rate, lasts = 100, time.Minute
	kinds := []call{}
	for _, c := range f.calls() {
		if slices.Contains([]string{"disconnect", "subscribe", "unsubscribe", "refresh"}, c.name) {
			kinds = append(kinds, c)
		}
	}
	heard, stop := f.listen()
	cpu, at, before := f.cpu(), time.Now(), f.engine.work(t)
	var o outcomes
	var under sync.WaitGroup
	var buffered int64
	k := 0
	for tick := time.NewTicker(time.Second / rate); time.Since(at) < lasts; <-tick.C {
		one, node := kinds[k%len(kinds)], k%len(f.nodes)
		under.Go(func() { o.add(at, one, node) })
		k++
		if k%(5*rate) == 0 {
			buffered = max(buffered, f.engine.buffered(t))
		}
	}
	seconds := time.Since(at).Seconds()
	w, cpu := f.engine.work(t).since(before), f.cpu()-cpu
	under.Wait()
	stop()
	t.Logf("commands: %.0f/s for %.0f s: %v", float64(k)/seconds, seconds, &o)
	t.Logf("commands: nodes together %.1f%% of a core, engine %.1f%%; %v calls; %.0f KB/s in, %.0f KB/s out; a command has %.0f bytes; most bytes in an output buffer %d",
		cpu.Seconds()/seconds*100, w.cpu.Seconds()/seconds*100, w.calls, float64(w.in)/seconds/1e3, float64(w.out)/seconds/1e3,
		float64(heard.bytes["command"])/float64(max(1, heard.messages["command"])), buffered)
}

func storm(t *testing.T, f *fleet) {
	for _, c := range f.calls()[1:2] {
		for _, spread := range []bool{false, true} {
			var o outcomes
			began := time.Now()
			for range 5 {
				var under sync.WaitGroup
				for k := range 20 {
					node := 0
					if spread {
						node = k % len(f.nodes)
					}
					under.Go(func() { o.add(began, c, node) })
				}
				under.Wait()
			}
			t.Logf("storm: 20 calls of %s at once, 5 times, at one node: %v: %v", c.name, !spread, &o)
		}
	}
}

// lose suspends or kills a node, and makes the calls at others from then on.
func lose(t *testing.T, f *fleet, suspend bool) {
	victim, state := len(f.nodes)-1, "killed"
	began := time.Now()
	if suspend {
		state = "suspended"
		f.nodes[victim].Pause()
	} else {
		f.nodes[victim].Kill()
	}
	others := f.all(victim)
	of := f.calls()
	results := make([]outcomes, len(of))
	var under sync.WaitGroup
	for k, c := range of {
		under.Go(func() {
			for i := 0; time.Since(began) < 50*time.Second; i++ {
				results[k].add(began, c, others[(k+i)%len(others)])
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
	forgotten := make(chan time.Duration, 1)
	go func() {
		for {
			names, err := f.listed(0)
			if err == nil && !slices.Contains(names, "node-"+strconv.Itoa(victim)) || time.Since(began) > patience {
				forgotten <- time.Since(began)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	under.Wait()
	for k, c := range of {
		first := results[k].list[0]
		t.Logf("one node %s: %-14s the first took %s (error: %v); %v", state, c.name, ms(first.took), first.err != nil, &results[k])
	}
	t.Logf("one node %s: out of info after %.1f s", state, (<-forgotten).Seconds())
	at := time.Now()
	if suspend {
		f.nodes[victim].Resume()
	} else {
		f.launch(victim)
		f.ready(victim)
	}
	f.know(f.all(), len(f.nodes))
	t.Logf("one node %s: all nodes know all %.1f s after its return", state, time.Since(at).Seconds())
}

func roll(t *testing.T, f *fleet) {
	heard, stop := f.listen()
	at := time.Now()
	for i := range f.nodes {
		f.nodes[i].Stop()
		f.launch(i)
		f.ready(i)
	}
	took := time.Since(at)
	f.know(f.all(), len(f.nodes))
	t.Logf("rolling restart: %.1f s, all nodes know all %.1f s after the last", took.Seconds(), (time.Since(at) - took).Seconds())
	stop()
	t.Logf("rolling restart: told to all: %v", heard.messages)
}
