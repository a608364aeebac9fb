//go:build linux

package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/porttest"
)

// hosts: nodes have addresses of their own, as machines have, so all can use the same ports.
var hosts = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}

const adminKey = "the-key-of-the-admin-interface"

// patience bounds each wait of a step.
const patience = 2 * time.Minute

type object = map[string]any

type stand struct {
	tb  testing.TB
	ctx context.Context // ends when the run is interrupted
	dir string
	// program is the server, other the same commit with another version.
	program, other string

	redis *redistest.Sentinel
	nodes []*node
	keys  *keys
	ports struct{ clients, internal, grpc int }
	// public and private are where nginx takes clients and backends.
	public, private string
	nginx           string
	front           *rig.Front
	frontLog        string // of processes that have ended
	config          object
	names           *strings.Replacer // of addresses
	disk            bool
}

type node struct {
	*rig.Server
	name, host string
	program    string
	logDir     string
	said       string // on stderr, by processes that have ended
}

func (n *node) log() string { return filepath.Join(n.logDir, n.name+".log") }

func newStand(ctx context.Context, tb testing.TB, out string) *stand {
	tb.Helper()
	s := &stand{tb: tb, ctx: ctx, dir: tb.TempDir(), nginx: need.Program(tb, "nginx"), keys: newKeys(tb)}
	var err error
	if s.program, err = rig.Binary(); err != nil {
		tb.Fatal(err)
	}
	s.other = s.program
	s.redis = redistest.NewSentinel(tb, redistest.Options{Persistent: true, Failover: true, DownAfter: 3 * time.Second, Replicas: 2})
	s.names = serverNames(s.redis)
	s.ports.clients, s.ports.internal, s.ports.grpc = rig.Port(tb), rig.Port(tb), rig.Port(tb)
	s.public, s.private = porttest.Address(tb), porttest.Address(tb)
	for _, name := range []string{"front", "grpc"} {
		s.certify(name)
	}
	s.config = s.configuration()
	s.write()
	logs := filepath.Join(out, "logs")
	if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o750)); err != nil {
		tb.Fatal(err)
	}
	for i, host := range hosts {
		s.nodes = append(s.nodes, &node{name: fmt.Sprintf("rt-%d", i+1), host: host, program: s.program, logDir: logs})
	}
	s.mount()
	for _, n := range s.nodes {
		s.start(n)
		tb.Cleanup(func() { s.finish(n) })
	}
	s.balance()
	tb.Cleanup(func() {
		s.front.Stop()
		s.keep(filepath.Join(logs, "nginx.log"), s.frontLog+s.front.Log())
	})
	return s
}

func serverNames(r *redistest.Sentinel) *strings.Replacer {
	pairs := []string{strings.Join(r.Addresses(), ", "), "the Sentinels"}
	for i, s := range r.Servers {
		pairs = append(pairs, s.Addr(), fmt.Sprintf("redis-%d", i+1))
	}
	for i, address := range r.Addresses() {
		pairs = append(pairs, address, fmt.Sprintf("sentinel-%d", i+1))
	}
	return strings.NewReplacer(pairs...)
}

func (s *stand) finish(n *node) {
	n.Resume()
	n.Kill()
	s.keep(filepath.Join(s.nodes[0].logDir, n.name+".stderr"), n.said+n.Log())
	if n.logDir != s.nodes[0].logDir {
		text, err := os.ReadFile(n.log())
		if err != nil {
			s.tb.Log(err)
		}
		s.keep(filepath.Join(s.nodes[0].logDir, n.name+".log"), string(text))
	}
}

func (s *stand) keep(file, text string) {
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.tb.Log(err)
	}
}

// mount gives the log of the last node a small file system, if this is root.
func (s *stand) mount() {
	n := s.nodes[len(s.nodes)-1]
	dir := filepath.Join(s.dir, "disk")
	if err := os.Mkdir(dir, 0o750); err != nil {
		s.tb.Fatal(err)
	}
	if syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m") != nil {
		return
	}
	n.logDir, s.disk = dir, true
	s.tb.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			s.tb.Log(err)
		}
	})
}

func (s *stand) certify(name string) {
	s.tb.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		s.tb.Fatal(err)
	}
	if _, _, err := rig.CertificateFiles(dir, "rt.example.com"); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *stand) configuration() object {
	options := func(name string, history bool) object {
		o := object{"allow_subscribe_for_client": true}
		if name != "" {
			o["name"] = name
		}
		if history {
			o["history_size"], o["history_ttl"], o["force_recovery"] = 1000, "10m", true
		}
		return o
	}
	return object{
		"http_server": object{"internal_port": strconv.Itoa(s.ports.internal)},
		"health":      object{"enabled": true},
		"prometheus":  object{"enabled": true},
		"admin":       object{"enabled": true, "password": "the-password-of-operators", "secret": "the-secret-of-sessions-of-operators", "api_key": adminKey},
		"engine": object{"type": "redis", "redis": object{
			"sentinel_address": []string{strings.Join(s.redis.Addresses(), ",")}, "sentinel_master_name": s.redis.Master, "start_timeout": "30s",
		}},
		"client":   object{"token": object{"hmac_secret_key": s.keys.secret(), "ecdsa_public_key": s.keys.public}},
		"http_api": object{"key": rig.APIKey},
		"grpc_api": object{"enabled": true, "port": s.ports.grpc, "key": rig.APIKey, "tls": object{
			"enabled": true, "cert_pem": filepath.Join(s.dir, "grpc/cert.pem"), "key_pem": filepath.Join(s.dir, "grpc/key.pem"),
		}},
		"uni_sse":  object{"enabled": true},
		"shutdown": object{"drain_time": "10s"},
		"channel":  object{"without_namespace": options("", false), "namespaces": []object{options("news", true)}},
	}
}

func (s *stand) write() {
	s.tb.Helper()
	text, err := json.MarshalIndent(s.config, "", "  ")
	if err == nil {
		err = os.WriteFile(s.file(), text, 0o600)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

func (s *stand) file() string { return filepath.Join(s.dir, "gyro.json") }

func (s *stand) start(n *node) {
	s.tb.Helper()
	if n.Server != nil {
		n.said += n.Log()
	}
	var err error
	n.Server, err = rig.LaunchProgram(n.program, s.ports.clients, []string{"-c", s.file(), "-a", n.host, "-p", strconv.Itoa(s.ports.clients)}, []string{
		"GYRO_NODE_NAME=" + n.name, "GYRO_LOG_FILE=" + n.log(), "GYRO_GRPC_API_ADDRESS=" + n.host, "GYRO_SHUTDOWN_DELAY=0s", // 3 s, as by default
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := s.until(n.name+" is ready", func() bool { return s.ready(n) == nil }); err != nil {
		s.tb.Fatalf("%v\n%s", err, n.Log())
	}
}

func (s *stand) stop(n *node) { n.StopWithin(40 * time.Second) }

func (s *stand) internal(n *node) string {
	return net.JoinHostPort(n.host, strconv.Itoa(s.ports.internal))
}

func (s *stand) until(what string, done func() bool) error {
	for deadline := time.Now().Add(patience); !done(); wire.Sleep(s.ctx, 50*time.Millisecond) {
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %s", patience, what)
		}
	}
	return nil
}

// balance runs nginx with the configuration of docs/load-balancers.md for clients, and with a listener for backends.
func (s *stand) balance() {
	s.tb.Helper()
	text, err := s.nginxText()
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "nginx.conf"), []byte(text), 0o600)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
	if s.front != nil {
		s.frontLog += s.front.Log()
	}
	cmd := exec.Command(s.nginx, rig.Nginx(s.dir, filepath.Join(s.dir, "nginx.conf"))...)
	if s.front, err = rig.StartFront(cmd, s.public); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *stand) nginxText() (string, error) {
	text, err := rig.Example("../..", "gyro.conf")
	if err != nil {
		return "", err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return "", err
	}
	var clients, backends strings.Builder
	for _, host := range hosts {
		fmt.Fprintf(&clients, "    server %s:%d max_fails=0;\n", host, s.ports.clients)
		fmt.Fprintf(&backends, "    server %s:%d max_fails=0;\n", host, s.ports.internal)
	}
	const servers = "    server 10.0.0.1:8000 max_fails=0;\n    server 10.0.0.2:8000 max_fails=0;\n"
	const letsencrypt = "/etc/letsencrypt/live/rt.example.com/"
	for _, r := range [][2]string{
		{servers, clients.String()}, {"listen 443 ssl http2;", "listen " + s.public + " ssl http2 backlog=4096;"},
		{letsencrypt + "fullchain.pem", filepath.Join(s.dir, "front/cert.pem")}, {letsencrypt + "privkey.pem", filepath.Join(s.dir, "front/key.pem")},
	} {
		if n := strings.Count(text, r[0]); n != 1 {
			return "", fmt.Errorf("gyro.conf of docs/load-balancers.md has %q %d times, want once", r[0], n)
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	text += fmt.Sprintf(`
upstream backends {
    zone backends 64k;
%s    keepalive 32;
}
server {
    listen %s;
    location /api {
        proxy_pass http://backends;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_connect_timeout 2s;
        proxy_read_timeout 30s;
    }
}`, backends.String(), s.private)
	return fmt.Sprintf("worker_processes auto;\nworker_rlimit_nofile %d;\n", files.Max) + rig.WholeNginx("worker_connections 16384;", text), nil
}

func (s *stand) get(client *http.Client, n *node, path string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+s.internal(n)+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-API-Key", adminKey)
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	return resp.StatusCode, text.Bytes(), err
}

var asking = &http.Client{Timeout: 2 * time.Second}

func (s *stand) ready(n *node) []string {
	status, body, err := s.get(asking, n, "/health/ready")
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return []string{"connection refused"}
	case err != nil && os.IsTimeout(err):
		return []string{"no answer within 2 s"}
	case err != nil:
		return []string{"no answer"}
	case status == http.StatusOK:
		return nil
	}
	var health struct {
		Parts []struct{ Part, Error string }
	}
	said := []string{fmt.Sprint(status)}
	if err := json.Unmarshal(body, &health); err != nil {
		return append(said, err.Error())
	}
	for _, p := range health.Parts {
		if p.Error != "" {
			said = append(said, p.Part+": "+p.Error)
		}
	}
	return said
}

func (s *stand) overview(n *node) (said []string) {
	status, body, err := s.get(asking, n, "/admin/nodes")
	if err != nil || status != http.StatusOK {
		return []string{"no answer"}
	}
	var report struct {
		Nodes []struct {
			Name, Error string
			Parts       []struct{ Part, Error string }
		}
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return []string{err.Error()}
	}
	listed := make(map[string]bool)
	for _, v := range report.Nodes {
		listed[v.Name] = true
		if v.Error != "" {
			said = append(said, v.Name+": "+v.Error)
		}
		for _, p := range v.Parts {
			if p.Error != "" {
				said = append(said, v.Name+", "+p.Part+": "+p.Error)
			}
		}
	}
	for _, other := range s.nodes {
		if !listed[other.name] {
			said = append(said, other.name+" is not in the list")
		}
	}
	return said
}

type finding struct{ Area, Status, Text string }

func (s *stand) doctor() (bad []finding) {
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.program, "doctor", "-c", s.file(), "--json").Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return []finding{{"doctor", "problem", err.Error()}}
	}
	for line := range strings.Lines(string(out)) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			bad = append(bad, finding{"doctor", "problem", line})
		} else if f.Status != "ok" {
			bad = append(bad, finding{f.Area, f.Status, plain(f.Text)})
		}
	}
	return bad
}
