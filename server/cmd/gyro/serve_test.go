package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// TestRefusesToStart: a wrong or unsupported configuration, by the name of its key.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{`:                              "config.json",
		`{"http_server":{"port":70000}}`: "http_server.port",
		`{"client":{"ping_interval":1}}`: "client.ping_interval",
		`{"client":{"token":{"rsa_public_key":"secret-nonsense"}}}`:                                 "client.token.rsa_public_key",
		`{"engine":{"type":"kafka"}}`:                                                               "engine.type: \"kafka\"",
		`{"client":{"token":"secret-nonsense"}}`:                                                    "client.token",
		`{"client":{"allowed_origins":["[a"]}}`:                                                     "client.allowed_origins",
		`{"client":{"insecure":"maybe"}}`:                                                           "client.insecure",
		`{"channel":{"namespaces":"chat"}}`:                                                         "channel.namespaces",
		`{"channel":{"namespaces":[{"name":"chat"},{"name":"chat"}]}}`:                              "channel.namespaces[1](chat)",
		`{"channel":{"without_namespace":{"channel_regex":"("}}}`:                                   "channel.without_namespace.channel_regex",
		`{"controller":{"enabled":true,"type":"postgres"}}`:                                         "controller.postgres.dsn",
		`{"engine":{"type":"redis","redis":{"address":["redis://u:secret-nonsense@127.0.0.1:1"]}}}`: "engine.redis: redis shard 0 (127.0.0.1:1)",
		`{"engine":{"type":"redis","redis":{"address":["ftp://u:secret-nonsense@127.0.0.1:1"]}}}`:   "engine.redis.address[0]",
		`{"http_server":{"tls":{"enabled":true,"cert_pem":"x","key_pem":"secret-nonsense"}}}`:       "http_server.tls.cert_pem",
		`{"pid_file":"/no/such/dir/pid"}`:                                                           "pid_file",
		`{"log":{"file":"/no/such/dir/log"}}`:                                                       "log.file",
		`{"health":{"enabled":true,"handler_prefix":"/api"}}`:                                       "http_api.handler_prefix",
	} {
		write(t, dir, "config.json", text)
		failServer(t, dir, want, nil)
	}
	write(t, dir, "config.json", `{}`)
	failServer(t, dir, "admin.enabled", nil, "--admin.enabled")
	failServer(t, dir, "http_server.port: \"x\"", nil, "--http_server.port=x")
	failServer(t, dir, "client.channel_limit", []string{"GYRO_CLIENT_CHANNEL_LIMIT=many"})
	for _, args := range [][]string{{"--no.such.flag"}, {"--http_server.port"}, {"dev", "--no.such.flag"}} {
		failServerBy(t, dir, wrongUsage, strings.TrimPrefix(args[len(args)-1], "--"), nil, args...)
	}
	write(t, dir, ".env", "nonsense\n")
	failServer(t, dir, ".env: line 1", nil)
}

// TestPrecedence: flags before variables, these before .env, that before the file.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inFile, inDotEnv, inEnv, inFlag := freePort(t), freePort(t), freePort(t), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+inFile+`},"health":{"enabled":true}}`)
	listens := func(port string, env []string, args ...string) {
		t.Helper()
		p := launch(t, dir, env, `"address":"127.0.0.1:`+port+`"`, args...)
		if got := status("http://127.0.0.1:" + port + "/health"); got != http.StatusOK {
			t.Errorf("status %d", got)
		}
		p.signal(os.Interrupt)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code %d: %s", code, p.text())
		}
	}
	listens(inFile, nil)
	write(t, dir, ".env", "GYRO_HTTP_SERVER_PORT="+inDotEnv+"\n")
	listens(inDotEnv, nil)
	listens(inEnv, []string{"GYRO_HTTP_SERVER_PORT=" + inEnv})
	listens(inFlag, []string{"GYRO_HTTP_SERVER_PORT=" + inEnv}, "-p", inFlag)
}

// TestMissingFile: a warning, and the other sources count.
func TestMissingFile(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	p := launch(t, t.TempDir(), []string{"CENTRIFUGO_CLIENT_INSECURE=true", "GYRO_NO_SUCH_KEY=1"}, "client.insecure", "-a", "127.0.0.1", "-p", port)
	for _, want := range []string{`"level":"warn"`, "config.json", "GYRO_NO_SUCH_KEY"} {
		p.await(want)
	}
	c := wstest.Dial(t, "http://127.0.0.1:"+port+"/connection/websocket", nil)
	c.Connect("")
	p.signal(syscall.SIGTERM)
	if d := c.Disconnected(); d != protocol.DisconnectShutdown {
		t.Errorf("client ended with %v", d)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSignals: SIGHUP reloads or keeps what is in force, SIGTERM ends the process
// and removes its PID file.
func TestSignals(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	config := func(client string) {
		write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"pid_file":"pid","client":`+client+`}`)
	}
	config(`{"token":{"hmac_secret_key":"secret-of-the-file"}}`)
	p := launch(t, dir, nil, "gyro is running")
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil || string(pid) != strconv.Itoa(p.cmd.Process.Pid)+"\n" {
		t.Errorf("PID file: %q %v", pid, err)
	}
	anonymous := func() string {
		got, _ := wstest.Dial(t, "http://127.0.0.1:"+port+"/connection/websocket", nil).Outcome(`"connect":{}`)
		return got
	}
	if got := anonymous(); got != "disconnect 3501" {
		t.Errorf("at start: %s", got)
	}
	config(`{"insecure":true,"no_such_key":1}`)
	p.signal(syscall.SIGHUP)
	p.await("no_such_key")
	if got := anonymous(); got != "ok" {
		t.Errorf("reloaded: %s", got)
	}
	config(`{"channel_limit":"x"}`)
	p.signal(syscall.SIGHUP)
	p.await("client.channel_limit")
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.await("no such file")
	if got := anonymous(); got != "ok" {
		t.Errorf("not reloaded: %s", got)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "pid")); !os.IsNotExist(err) {
		t.Errorf("PID file is left: %v", err)
	}
	if strings.Contains(p.text(), "secret-of-the-file") {
		t.Errorf("secret in the log: %s", p.text())
	}
}

// TestReloadProxies: a changed entry of proxies is used by the next call of a client that is connected
// already.
func TestReloadProxies(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	backend := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"result":{"data":%q}}`, name)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	first, second := backend("first"), backend("second")
	config := func(endpoint string) {
		write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"client":{"insecure":true},
			"proxies":[{"name":"named","endpoint":"`+endpoint+`"}],"rpc":{"without_namespace":{"proxy_enabled":true,"proxy_name":"named"}}}`)
	}
	config(first)
	p := launch(t, dir, nil, "gyro is running")
	c := wstest.Dial(t, "http://127.0.0.1:"+port+"/connection/websocket", nil)
	c.Connect("")
	call := func(want string) {
		t.Helper()
		if got := string(c.Do(`"rpc":{"method":"m"}`).RPC.Data); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	call(`"first"`)
	config(second)
	p.signal(syscall.SIGHUP)
	p.await("configuration reloaded")
	call(`"second"`)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestReloadByAPI: a backend has the server read its configuration and a secret's file again, and gets to
// know what came of it.
func TestReloadByAPI(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	config := func(rest string) {
		write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"http_api":{"key_file":"key"},"client":`+rest+`}`)
	}
	write(t, dir, "key", "first-secret\n")
	config(`{}`)
	p := launch(t, dir, nil, "gyro is running")
	reload := func(key, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+"/api/rpc", strings.NewReader(`{"method":"reload"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("%s %v, want %s", body, err, want)
		}
	}
	reload("first-secret", `{"result":{"data":{"applied":[],"restart":[]}}}`)
	write(t, dir, "key", "second-secret")
	config(`{"channel_limit":7,"insecure":true}`)
	reload("second-secret", "Unauthorized")
	reload("first-secret", `{"result":{"data":{"applied":["client.insecure","http_api.key"],"restart":["client.channel_limit"]}}}`)
	config(`{"channel_limit":"x","insecure":false}`)
	reload("second-secret", `{"error":{"code":107,"message":"the configuration is not reloaded, the old one stays in force: client.channel_limit: \"x\" is not a whole number in the range of 64 bits"}}`)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(p.text(), "-secret") {
		t.Errorf("secret in the log: %s", p.text())
	}
}

// TestInterruptedStart: a server that waits for Redis or NATS can be told to stop.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]string{
		"redis": `"engine":{"type":"redis","redis":{"address":["127.0.0.1:1"],"start_timeout":"1h"}}`,
		"nats":  `"broker":{"enabled":true,"type":"nats","nats":{"url":"nats://127.0.0.1:1","start_timeout":"1h"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+freePort(t)+`},"pid_file":"pid",`+engine+`}`)
			p := launch(t, dir, nil, "trying again")
			p.signal(syscall.SIGHUP) // means nothing yet
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 {
				t.Errorf("exit code %d: %s", code, p.text())
			}
			if _, err := os.Stat(filepath.Join(dir, "pid")); !os.IsNotExist(err) {
				t.Errorf("PID file is left: %v", err)
			}
		})
	}
}

// TestShutdownIsBounded: by shutdown.timeout, and by the patience of who sends a
// second signal.
func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]string{"timeout": "50ms", "signal": "1h"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, port := t.TempDir(), freePort(t)
			write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"pid_file":"pid","http_api":{"insecure":true},"shutdown":{"timeout":"`+timeout+`"}}`)
			p := launch(t, dir, nil, "gyro is running")
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// A request that never ends. The server asks for its body.
			fmt.Fprint(conn, "POST /api/info HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			p.signal(syscall.SIGTERM)
			p.await("shutting down")
			if name == "signal" {
				p.signal(syscall.SIGHUP) // means nothing now
				p.signal(os.Interrupt)
			}
			if code := p.exit(); code != 1 {
				t.Errorf("exit code %d: %s", code, p.text())
			}
			if _, err := os.Stat(filepath.Join(dir, "pid")); !os.IsNotExist(err) {
				t.Errorf("PID file is left: %v", err)
			}
		})
	}
}

// TestAddressInUse: the error says what is in use.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	dir, want := t.TempDir(), "http_server: external listener: listen tcp 127.0.0.1:"+port+": bind: address already in use"
	failServer(t, dir, want, nil, "-a", "127.0.0.1", "-p", port)
	// Who looks into the log finds it, too.
	failServer(t, dir, want, []string{"GYRO_LOG_FILE=log"}, "-a", "127.0.0.1", "-p", port)
	if log, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !strings.Contains(string(log), want) {
		t.Errorf("log: %s, %v", log, err)
	}
}

// TestServerFlags: each flag of the server is a key, and sets it; transports without a listener of their
// own have one.
func TestServerFlags(t *testing.T) {
	t.Parallel()
	f := pflag.NewFlagSet("gyro", pflag.ContinueOnError)
	serverFlags(f)
	values := map[string]string{"bool": "true", "int": "1234", "string": ""}
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Usage == "" && flag.Name != "init.enabled" {
			t.Errorf("%s is no key", flag.Name)
		}
		if err := f.Set(flag.Name, values[flag.Value.Type()]); err != nil {
			t.Error(err)
		}
	})
	for _, transport := range []string{"uni_websocket", "uni_sse", "uni_http_stream", "uni_poll", "sse", "http_stream"} {
		if changed(f)[transport+".enabled"] != "true" {
			t.Errorf("%s has no flag", transport)
		}
	}
	cfg, _, err := config.Load(config.Options{Flags: map[string]string{"uni_poll.enabled": "true"}})
	if err != nil || !cfg.UniPoll.Enabled {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// lineOf returns the line of a log with a message.
func lineOf(t *testing.T, text, message string) (line map[string]any) {
	t.Helper()
	for l := range strings.Lines(text) {
		if strings.Contains(l, `"message":"`+message+`"`) {
			if err := json.Unmarshal([]byte(l), &line); err != nil {
				t.Fatal(err)
			}
			return line
		}
	}
	t.Fatalf("there is no line %q in %s", message, text)
	return nil
}

// TestFirstAndLastLines: the log says which configuration is read and what is served where, why the server ends, and that it has ended.
func TestFirstAndLastLines(t *testing.T) {
	t.Parallel()
	dir, port, internal := t.TempDir(), freePort(t), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`,"internal_port":"`+internal+`"},"client":{"insecure":true},"health":{"enabled":true},"shutdown":{"drain_time":"-1s"}}`)
	p := launch(t, dir, nil, "gyro is running")
	if got := lineOf(t, p.text(), "gyro is running")["config"]; got != filepath.Join(dir, "config.json") {
		t.Errorf("configuration %v", got)
	}
	endpoints := make(map[any]string)
	for l := range strings.Lines(p.text()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(l), &line); err == nil && line["message"] == "listening" {
			endpoints[line["listener"]] = fmt.Sprint(line["endpoints"])
		}
	}
	if got := fmt.Sprint(endpoints); got != "map[external:[/connection/websocket] internal:[/api /health]]" {
		t.Errorf("endpoints: %s", got)
	}
	c := wstest.Dial(t, "http://127.0.0.1:"+port+"/connection/websocket", nil)
	c.Connect("")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(p.await(`"message":"stopped"`)), "\n")
	last := lineOf(t, lines[len(lines)-1], "stopped")
	if begin := lineOf(t, p.text(), "shutting down"); begin["reason"] != "signal: terminated" || begin["clients"] != 1.0 ||
		last["clients_told"] != 1.0 || last["clients_left"] != 0.0 || last["seconds"] == nil {
		t.Errorf("%v %v", begin, last)
	}
}

// TestSecondSignal: it ends the shutdown, and the log and the error say so, once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"client":{"insecure":true},"shutdown":{"delay":"7s"},"health":{"enabled":true}}`)
	p := launch(t, dir, nil, "gyro is running")
	p.signal(syscall.SIGTERM)
	p.await("node is not ready any more")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	p.await(`"level":"fatal"`)
	if got := lineOf(t, p.text(), "gyro cannot run")["error"]; got != "shutdown: interrupted by signal: terminated" {
		t.Errorf("error %q", got)
	}
	lineOf(t, p.text(), "stopped before the shutdown was complete")
}
