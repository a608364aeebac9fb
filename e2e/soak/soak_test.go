// Package soak lets many clients of this repository run for a while against two servers that are restarted, over networks
// that break, stall, are slow, and deliver twice, with tokens that live for seconds. Nothing may be lost, come twice or out of
// order, and neither memory nor timers may grow:
//
//	go test ./e2e/soak -v                                  # 5 seconds, 40 clients
//	go test ./e2e/soak -v -time 10m -clients 200           # make soak-clients
package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

var (
	length  = flag.Duration("time", 5*time.Second, "how long the networks and servers have faults")
	clients = flag.Int("clients", 40, "how many clients there are")
)

func TestMain(m *testing.M) {
	if task := os.Getenv("SOAK_TASK"); task != "" {
		os.Exit(run(task))
	}
	flag.Parse()
	os.Exit(rig.Run(m))
}

// task tells a program to connect clients to endpoints in turn, each of which subscribes to all channels. Publications
// are the numbers 1, 2, 3 …; in channels delta: as patches.
type task struct {
	Clients   int      `json:"clients"`
	Endpoints []string `json:"endpoints"` // http://host:port
	Channels  []string `json:"channels"`
	Token     string   `json:"token"` // URL of new tokens, to which the user is appended
}

// answer to a line: "usage" collects garbage and tells what is left, "reached N" waits until all subscriptions have N,
// and tells what was wrong. At the end of its input, the program closes its clients, and ends.
type answer struct {
	Heap       int      `json:"heap"`  // bytes
	Tasks      int      `json:"tasks"` // timers in JavaScript, goroutines in Go
	Wrong      []string `json:"wrong"`
	Received   int      `json:"received"`
	Reconnects int      `json:"reconnects"`
}

func TestGo(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	soak(t, exec.Command(self))
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("node", "--expose-gc", "--enable-source-maps", "soak.mjs")
	cmd.Dir = "../../clients/js"
	soak(t, cmd)
}

func soak(t *testing.T, cmd *exec.Cmd) {
	w := newWorld(t)
	p := start(t, cmd, w.task())
	w.publish(p)
	p.ask("reached " + strconv.FormatInt(w.published(), 10))
	w.during(warmUp)
	before := w.rest(p)
	w.during(*length)
	after := w.rest(p)
	t.Logf("%d clients, %d publications received, %d connections made again, %d messages twice; heap %d to %d KiB, tasks %d to %d; %v",
		*clients, after.Received, after.Reconnects, w.twice(), before.Heap>>10, after.Heap>>10, before.Tasks, after.Tasks, w.faults)
	if after.Reconnects <= before.Reconnects || w.twice() == 0 {
		t.Error("the faults reached no client")
	}
	if after.Heap > before.Heap*6/5+(4<<20) {
		t.Errorf("the heap grew from %d to %d KiB", before.Heap>>10, after.Heap>>10)
	}
	if after.Tasks > before.Tasks*11/10+10 {
		t.Errorf("timers or goroutines grew from %d to %d", before.Tasks, after.Tasks)
	}
	p.end()
}

const warmUp = 3 * time.Second

type world struct {
	t       *testing.T
	ctx     context.Context
	file    string
	nodes   [2]*rig.Server
	proxies [3]*rig.Proxy
	echoes  [3]*echo
	tokens  *httptest.Server
	faults  map[string]int

	mu sync.Mutex
	n  int64 // the last number that was published
}

var channels = []string{"stream:1", "stream:2", "delta:1"}

const namespace = `"history_size": 20000, "history_ttl": "600s", "force_recovery": true, "allow_subscribe_for_client": true`

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, file: filepath.Join(t.TempDir(), "config.json"), faults: make(map[string]int)}
	redis, err := rig.StartRedis(t.TempDir())
	must(t, err)
	t.Cleanup(redis.Kill)
	must(t, os.WriteFile(w.file, []byte(`{
		"http_server": {"address": "127.0.0.1"}, "log": {"level": "warn"}, "health": {"enabled": true},
		"client": {
			"token": {"hmac_secret_key": "`+rig.TokenSecret+`"}, "ping_interval": "3s", "pong_timeout": "2s",
			"expired_close_delay": "5s", "recovery_max_publication_limit": 20000
		},
		"http_stream": {"enabled": true}, "http_api": {"key": "`+rig.APIKey+`"},
		"engine": {"type": "redis", "redis": {"address": "`+redis.Addr()+`"}},
		"channel": {"namespaces": [
			{"name": "stream", `+namespace+`},
			{"name": "delta", "allowed_delta_types": ["fossil"], "delta_publish": true, `+namespace+`}
		]}
	}`), 0o600))
	var addrs []string
	for i := range w.nodes {
		w.start(i, rig.Port(t))
		t.Cleanup(func() { w.nodes[i].Kill() })
		addrs = append(addrs, w.nodes[i].Addr)
	}
	for i := range w.proxies {
		w.proxies[i], err = rig.NewProxy(addrs...)
		must(t, err)
		t.Cleanup(w.proxies[i].Close)
		w.echoes[i], err = newEcho(w.proxies[i].Addr())
		must(t, err)
		t.Cleanup(func() { _ = w.echoes[i].listener.Close() })
	}
	w.tokens = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, rig.Token(map[string]any{"sub": r.URL.Query().Get("user"), "exp": time.Now().Unix() + 4}))
	}))
	t.Cleanup(w.tokens.Close)
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) start(i, port int) {
	w.t.Helper()
	var err error
	w.nodes[i], err = rig.StartServer(port, []string{"-c", w.file, "-p", strconv.Itoa(port)}, nil)
	must(w.t, err)
}

func (w *world) task() task {
	list := task{Clients: *clients, Channels: channels, Token: w.tokens.URL + "/?user="}
	for _, e := range w.echoes {
		list.Endpoints = append(list.Endpoints, "http://"+e.addr())
	}
	return list
}

func (w *world) twice() (n int64) {
	for _, e := range w.echoes {
		n += e.twice.Load()
	}
	return n
}

func (w *world) publish(p *program) {
	client := &http.Client{Timeout: 5 * time.Second}
	addrs := []string{w.nodes[0].Addr, w.nodes[1].Addr}
	var work sync.WaitGroup
	w.t.Cleanup(work.Wait)
	work.Go(func() {
		pace := time.NewTicker(100 * time.Millisecond)
		defer pace.Stop()
		for n := int64(1); ; n++ {
			for _, channel := range channels {
				w.insist(client, addrs, channel, n)
			}
			w.mu.Lock()
			w.n = n
			w.mu.Unlock()
			select {
			case <-pace.C:
			case <-p.stop:
				return
			}
		}
	})
	_ = p.wait(func() bool { return w.published() > 0 })
}

// insist publishes a number until a node has acknowledged it. By the key no client gets it twice.
func (w *world) insist(client *http.Client, addrs []string, channel string, n int64) {
	params := map[string]any{"channel": channel, "data": n, "idempotency_key": strconv.FormatInt(n, 10)}
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		err := rig.Call(ctx, client, addrs[i%len(addrs)], "publish", params, nil)
		cancel()
		if err == nil || w.ctx.Err() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond) // the nodes may both be down
	}
}

func (w *world) published() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

func (w *world) during(d time.Duration) {
	kinds := []struct {
		name string
		do   func(p *rig.Proxy, i int)
	}{
		{"cut", func(p *rig.Proxy, _ int) { p.Cut() }},
		{"silent connections", func(p *rig.Proxy, _ int) { p.Mute() }},
		{"stalled network", func(p *rig.Proxy, _ int) { p.Freeze(); time.Sleep(rand.N(2 * time.Second)); p.Resume() }},
		{"slow network", func(p *rig.Proxy, _ int) {
			p.Delay(rand.N(300 * time.Millisecond))
			time.Sleep(time.Second)
			p.Delay(0)
		}},
		{"network down", func(p *rig.Proxy, _ int) { p.Down(); time.Sleep(rand.N(time.Second)); p.Up() }},
		{"node killed", func(_ *rig.Proxy, i int) { w.nodes[i].Kill(); w.start(i, w.nodes[i].Port) }},
		{"node stopped", func(_ *rig.Proxy, i int) { w.nodes[i].Stop(); w.start(i, w.nodes[i].Port) }},
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		kind := kinds[rand.IntN(len(kinds))]
		w.faults[kind.name]++
		kind.do(w.proxies[rand.IntN(len(w.proxies))], rand.IntN(len(w.nodes)))
		time.Sleep(rand.N(500 * time.Millisecond)) // the pace of the faults; nothing is waited for
	}
}

// rest waits until all clients have everything, and returns what the program uses then.
func (w *world) rest(p *program) answer {
	w.t.Helper()
	for _, proxy := range w.proxies {
		proxy.Cut() // of muted connections too, so that no client is about to notice one
	}
	reached := p.ask("reached " + strconv.FormatInt(w.published()+10, 10))
	for _, wrong := range reached.Wrong {
		w.t.Error(wrong)
	}
	usage := p.ask("usage")
	usage.Received, usage.Reconnects = reached.Received, reached.Reconnects
	return usage
}

type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	stop chan struct{}
	over sync.Once
}

func start(t *testing.T, cmd *exec.Cmd, what task) *program {
	text, err := json.Marshal(what)
	must(t, err)
	cmd.Env = append(os.Environ(), "SOAK_TASK="+string(text))
	cmd.Stderr = os.Stderr
	p := &program{t: t, cmd: cmd, stop: make(chan struct{})}
	p.in, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	p.out = bufio.NewScanner(out)
	must(t, cmd.Start())
	t.Cleanup(func() {
		p.halt()
		_ = cmd.Process.Kill() // it has ended, unless the test failed
	})
	return p
}

func (p *program) halt() { p.over.Do(func() { close(p.stop) }) }

func (p *program) wait(cond func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	p.t.Error("nothing was published for a minute")
	return false
}

func (p *program) ask(line string) (a answer) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatalf("the program ended instead of an answer to %q: %v", line, p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		p.t.Fatalf("%s: %v", p.out.Bytes(), err)
	}
	return a
}

// end ends the program, which must leave nothing that keeps it from that.
func (p *program) end() {
	p.halt()
	must(p.t, p.in.Close())
	slow := time.AfterFunc(30*time.Second, func() {
		p.t.Error("the program did not end by itself within 30 s after it had closed its clients")
		_ = p.cmd.Process.Kill()
	})
	defer slow.Stop()
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}
