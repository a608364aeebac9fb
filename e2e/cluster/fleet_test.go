//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

const patience = 2 * time.Minute

type fleet struct {
	tb     testing.TB
	engine *engine
	file   string
	nodes  []*rig.Server
	http   *http.Client
}

// newFleet returns when each node knows all. It ends with the test.
func newFleet(tb testing.TB, e *engine, nodes int) *fleet {
	tb.Helper()
	f := &fleet{tb: tb, engine: e, file: filepath.Join(tb.TempDir(), "config.json"), nodes: make([]*rig.Server, nodes)}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	tb.Cleanup(transport.CloseIdleConnections)
	f.http = &http.Client{Transport: transport}
	if err := os.WriteFile(f.file, []byte(f.config()), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for i, n := range f.nodes {
			if n == nil {
				continue
			}
			n.Kill()
			if tb.Failed() && i < 3 {
				tb.Logf("--- log of node %d\n%s", i, tail(n.Log()))
			}
		}
	})
	for i := range nodes {
		f.launch(i)
		if i%4 == 3 || i == nodes-1 { // so many start at a time
			for k := i - i%4; k <= i; k++ {
				f.ready(k)
			}
		}
	}
	return f
}

func tail(log string) string { return log[max(0, len(log)-4000):] }

func (f *fleet) config() string {
	history := ""
	if f.engine.history() {
		history = `"history_size": 100, "history_ttl": "300s", "force_recovery": true, `
	}
	return `{
	"http_server": {"address": "127.0.0.1"},
	"log": {"level": "info"},
	"health": {"enabled": true}, "prometheus": {"enabled": true}, "admin": {"enabled": true, "insecure": true},
	"client": {"token": {"hmac_secret_key": "` + rig.TokenSecret + `"}},
	"http_api": {"key": "` + rig.APIKey + `"},
	"channel": {"namespaces": [
		{"name": "plain", "presence": true, "allow_subscribe_for_client": true},
		{"name": "kept", ` + history + `"allow_subscribe_for_client": true}
	]},
	` + f.engine.config + `}`
}

func (f *fleet) launch(i int) {
	f.tb.Helper()
	var err error
	port := rig.Port(f.tb)
	env := []string{"GOMAXPROCS=1", "GYRO_NODE_NAME=node-" + strconv.Itoa(i)}
	if f.nodes[i], err = rig.Launch(port, []string{"-c", f.file, "-p", strconv.Itoa(port)}, env); err != nil {
		f.tb.Fatal(err)
	}
}

func (f *fleet) ready(i int) {
	f.tb.Helper()
	f.until(fmt.Sprintf("an answer of node %d", i), func() bool {
		resp, err := f.http.Get("http://" + f.nodes[i].Addr + "/health/live")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

func (f *fleet) until(what string, done func() bool) {
	f.tb.Helper()
	if !wait.Within(patience, done) {
		f.tb.Fatalf("not within %v: %s", patience, what)
	}
}

// know waits until each of these nodes lists so many, and returns how long that took.
func (f *fleet) know(nodes []int, listed int) time.Duration {
	f.tb.Helper()
	began := time.Now()
	for _, i := range nodes {
		f.until(fmt.Sprintf("%d nodes in the info of node %d", listed, i), func() bool {
			names, err := f.listed(i)
			return err == nil && len(names) == listed
		})
	}
	return time.Since(began)
}

func (f *fleet) listed(i int) (names []string, err error) {
	var res struct{ Nodes []struct{ Name string } }
	err = f.call(context.Background(), i, "info", struct{}{}, &res)
	for _, n := range res.Nodes {
		names = append(names, n.Name)
	}
	return names, err
}

func (f *fleet) call(ctx context.Context, i int, method string, params, result any) error {
	return rig.Call(ctx, f.http, f.nodes[i].Addr, method, params, result)
}

func (f *fleet) get(ctx context.Context, i int, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.nodes[i].Addr+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", rig.APIKey)
	return f.do(req)
}

func (f *fleet) do(req *http.Request) ([]byte, error) {
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP status %d: %s", req.URL.Path, resp.StatusCode, body)
	}
	return body, err
}

// vitals returns the nodes of the admin interface, and those that did not answer it.
func (f *fleet) vitals(ctx context.Context, i int) (all, silent []string, err error) {
	body, err := f.get(ctx, i, "/admin/nodes")
	if err != nil {
		return nil, nil, err
	}
	var report struct {
		Nodes []struct{ Name, Error string }
	}
	err = json.Unmarshal(body, &report)
	for _, n := range report.Nodes {
		all = append(all, n.Name)
		if n.Error != "" {
			silent = append(silent, n.Name)
		}
	}
	return all, silent, err
}

// snapshot counts the nodes with connections, and the connections.
func (f *fleet) snapshot(ctx context.Context, i int) (nodes, connections int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.nodes[i].Addr+"/api/snapshot", strings.NewReader("{}"))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("X-API-Key", rig.APIKey)
	body, err := f.do(req)
	if err != nil {
		return 0, 0, err
	}
	var last struct {
		Summary *struct {
			Connections int
			Nodes       map[string]int
			Incomplete  string
		}
	}
	body = bytes.TrimSpace(body)
	if err := json.Unmarshal(body[bytes.LastIndexByte(body, '\n')+1:], &last); err != nil {
		return 0, 0, err
	}
	if last.Summary == nil || last.Summary.Incomplete != "" {
		return 0, 0, fmt.Errorf("the snapshot is not whole: %.300s", body[max(0, len(body)-300):])
	}
	return len(last.Summary.Nodes), last.Summary.Connections, nil
}

func (f *fleet) all(but ...int) (list []int) {
	for i := range f.nodes {
		if !slices.Contains(but, i) {
			list = append(list, i)
		}
	}
	return list
}

func (f *fleet) cpu() (sum time.Duration) {
	for _, n := range f.nodes {
		sum += cpuOf(f.tb, n.PID())
	}
	return sum
}

func (f *fleet) wakeups() (sum int64) {
	for _, n := range f.nodes {
		sum += wakeupsOf(f.tb, n.PID())
	}
	return sum
}

func (f *fleet) client(i int, user string, channels ...string) (*client.Client, []*client.Subscription) {
	f.tb.Helper()
	c, err := client.New(f.nodes[i].WS(), client.Options{Token: rig.Token(map[string]any{"sub": user})})
	if err != nil {
		f.tb.Fatal(err)
	}
	f.tb.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		f.tb.Fatal(err)
	}
	var subs []*client.Subscription
	for _, ch := range channels {
		s, err := c.NewSubscription(ch, nil)
		if err != nil {
			f.tb.Fatal(err)
		}
		s.Subscribe()
		if err := s.Ready(ctx); err != nil {
			f.tb.Fatal(err)
		}
		subs = append(subs, s)
	}
	return c, subs
}

// told has the messages to all others, and their bytes, by kind.
type told struct {
	mu              sync.Mutex
	messages, bytes map[string]int64
	senders         map[string]int64 // signs of life by sender
}

func (f *fleet) listen() (heard *told, stop func()) {
	f.tb.Helper()
	heard = &told{messages: make(map[string]int64), bytes: make(map[string]int64), senders: make(map[string]int64)}
	b, err := f.engine.broker()
	if err == nil {
		err = b.Describe().Control.RunControl("listener", heard.hear)
	}
	if err == nil {
		err = b.Run(nobody{})
	}
	if err != nil {
		f.tb.Fatal(err)
	}
	return heard, sync.OnceFunc(func() { _ = b.Close(context.Background()) }) // it ends
}

func (t *told) hear(data []byte) {
	var cmd control.Command
	kind := "?"
	if cmd.UnmarshalProto(data) == nil {
		switch {
		case cmd.Node != nil:
			kind = "sign of life"
		case cmd.Shutdown != nil:
			kind = "farewell"
		case cmd.SurveyRequest != nil:
			kind = "survey"
		default:
			kind = "command"
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages[kind]++
	t.bytes[kind] += int64(len(data))
	if cmd.Node != nil {
		t.senders[cmd.UID]++
	}
}

type nobody struct{}

func (nobody) HandlePublication(string, broker.PublicationEvent) {}
func (nobody) HandleJoin(string, *channel.ClientInfo)            {}
func (nobody) HandleLeave(string, *channel.ClientInfo)           {}
func (nobody) HandleLoss(func(string) bool)                      {}
