package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

const adminPassword, adminSecret = "password-of-operators", "secret-of-admin-sessions"

// operator asks the admin interface of a server.
type operator struct {
	*testServer
	base, token string
}

// startAdmin starts a server with the admin interface, and logs in.
func startAdmin(t *testing.T, edit func(*config.Config)) *operator {
	t.Helper()
	recent := logs.NewRecent()
	s := &testServer{t: t, logs: new(logBuffer), expected: "expected by the test", secrets: []string{tokenSecret, apiKey, adminPassword, adminSecret}}
	s.cfg = testConfig(func(cfg *config.Config) {
		cfg.Admin.Enabled, cfg.Admin.Password, cfg.Admin.Secret = true, adminPassword, adminSecret
		addNamespace(cfg, "chat", func(o *config.ChannelOptions) {
			o.HistorySize, o.HistoryTTL, o.JoinLeave, o.AllowSubscribeForClient = 10, 1e11, true, true
		})
		addNamespace(cfg, "board", func(o *config.ChannelOptions) { o.SubscriptionType, o.Map.Mode = config.TypeMap, "persistent" })
		if edit != nil {
			edit(cfg)
		}
	})
	logger := logging.Wrap(slog.New(recent.Handler(logs.To(s.logs, "trace", false).Handler())))
	s.app = must(New(s.cfg, Options{Version: "test", Logger: logger, Recent: recent}))
	if err := s.app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	o := &operator{testServer: s, base: "http://" + s.app.Addr("external") + strings.TrimRight(s.cfg.Admin.HandlerPrefix, "/")}
	var answer struct{ Token string }
	status, text := o.ask("POST", "/admin/auth", url.Values{"password": {adminPassword}}.Encode())
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatal(status, text, err)
	}
	o.token = answer.Token
	return o
}

func (o *operator) request(ctx context.Context, method, path, body string) *http.Response {
	o.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, o.base+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if o.token != "" {
		r.Header.Set("Authorization", "token "+o.token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	return answer
}

func (o *operator) ask(method, path, body string) (int, string) {
	o.t.Helper()
	answer := o.request(o.t.Context(), method, path, body)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// stream returns a function that returns the next line of an answer that goes on, which is not empty.
func (o *operator) stream(method, path, body string) func() string {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	answer := o.request(ctx, method, path, body)
	o.t.Cleanup(func() { cancel(); answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	return func() string {
		o.t.Helper()
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				return text
			}
		}
		o.t.Fatal("the stream has ended", lines.Err())
		return ""
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, nil)
	want := func(text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("no %s in %.2000s", p, text)
			}
		}
	}
	status, text := o.ask("POST", "/admin/api", `{"id":1,"method":"info","params":{}}{"id":2,"method":"publish","params":{"channel":"chat:x","data":{"n":1}}}{"method":"nonsense"`)
	if status != http.StatusBadRequest {
		t.Error(status, text)
	}
	_, text = o.ask("POST", "/admin/api", `{"id":1,"method":"info","params":{}}{"id":2,"method":"publish","params":{"channel":"chat:x","data":{"n":1}}}`)
	want(text, `{"id":1,"result":{"nodes":[{`, `{"id":2,"result":{"offset":2,`)
	_, text = o.ask("GET", "/admin/health", "")
	want(text, `"part":"node"`, `"delay_ms":`)
	_, text = o.ask("GET", "/admin/about", "")
	want(text, `"tail"`, `"publish"`, `"board":"map"`, `"version":"test"`)
	if strings.Contains(text, "user_status") {
		t.Error("the server keeps no status of users, so the interface must not ask for it")
	}
	_, text = o.ask("GET", "/admin/clients", "")
	want(text, `{"clients":0,"connections":[]}`)
	_, text = o.ask("GET", "/admin/history", "")
	want(text, `"uid":"`+o.app.node.UID()+`"`, `"history":{"lines":{`, `"published":[`)
	wait.Until(t, "figures that are younger than the publication", func() bool {
		_, text = o.ask("GET", "/admin/figures", "")
		return strings.Contains(text, `"node_messages_sent_count"`)
	})
	want(text, `"method":"publish","protocol":"admin"`)
	_, text = o.ask("POST", "/admin/channel", `{"channel":"board:x"}`)
	want(text, `"namespace":"board"`, `"type":"map"`, `"maps":true`, `"key":"history_size"`)
	_, text = o.ask("GET", "/admin/config", "")
	want(text, `{"key":"admin.password","value":"(hidden)"`, `"key":"channel.namespaces[0](chat).history_size","value":10`)
	for _, secret := range o.secrets {
		if strings.Contains(text, secret) {
			t.Error("a secret is shown:", secret)
		}
	}
	for _, name := range []string{"nope:x", ""} {
		for _, path := range []string{"/admin/channel", "/admin/tail"} {
			if status, text := o.ask("POST", path, `{"channel":"`+name+`"}`); status != http.StatusBadRequest {
				t.Error(path, name, status, text)
			}
		}
	}
	wait.Until(t, "the same of the nodes", func() bool {
		_, text = o.ask("GET", "/admin/nodes", "")
		return strings.Contains(text, `"node_messages_sent_count":{"type":"counter","samples":[{`)
	})
	want(text, `"part":"node"`, `"uid":"`+o.app.node.UID()+`"`, `"client_queued_bytes":{"type":"gauge"`)
	if !strings.Contains(text, `"api_command_duration_seconds_histogram":{"type":"histogram","samples":null}`) {
		t.Error("the commands of this interface are in the charts")
	}
	if status, text := o.ask("GET", "/", ""); status != http.StatusOK || !strings.Contains(text, "app.js") {
		t.Error(status, text)
	}
	if status, text := o.ask("GET", "/other", ""); status != http.StatusNotFound || !strings.Contains(text, "this is Gyro") {
		t.Error(status, text)
	}
	if status, _ := o.ask("GET", "/metrics", ""); status != http.StatusNotFound {
		t.Error("prometheus.enabled is off:", status)
	}
	o.token = ""
	for _, path := range []string{"about", "api", "channel", "clients", "config", "figures", "health", "history", "logs", "nodes", "tail"} {
		for _, method := range []string{"GET", "POST"} {
			if status, text := o.ask(method, "/admin/"+path, "{}"); status != http.StatusUnauthorized && status != http.StatusMethodNotAllowed {
				t.Error(method, path, status, text)
			}
		}
	}
}

func TestAdminTail(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, nil)
	next := o.stream("POST", "/admin/tail", `{"channel":"chat:x"}`)
	if line := next(); !strings.Contains(line, `"subs":{"chat:x":{`) || !strings.Contains(line, `"positioned":true`) {
		t.Error(line)
	}
	o.ask("POST", "/admin/api", `{"method":"publish","params":{"channel":"chat:x","data":{"n":1}}}`)
	if line := next(); !strings.HasPrefix(line, `{"channel":"chat:x","pub":{"data":{"n":1},"offset":1`) {
		t.Error(line)
	}
	o.connect("anna").Subscribe("chat:x", "")
	if line := next(); !strings.Contains(line, `"join":{"info":{"user":"anna"`) {
		t.Error(line)
	}
	if _, text := o.ask("POST", "/admin/api", `{"method":"channels","params":{}}`); !strings.Contains(text, `"chat:x":{"num_clients":2}`) {
		t.Error(text)
	}
	o.stop() // which ends it, and does not wait for it
	if line := next(); !strings.Contains(line, `"disconnect":{"code":3001`) {
		t.Error(line)
	}
}

// TestAdminTailOfMaps: the entries, then the changes.
func TestAdminTailOfMaps(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, func(cfg *config.Config) {
		addNamespace(cfg, "pointers", func(c *config.ChannelOptions) {
			c.SubscriptionType, c.Map.Mode, c.Map.KeyTTL = config.TypeMap, "ephemeral", time.Minute
		})
	})
	set := func(ch, key string, value any) {
		t.Helper()
		text, _ := json.Marshal(map[string]any{"method": "map_publish", "params": map[string]any{"channel": ch, "key": key, "data": value}})
		if _, answer := o.ask("POST", "/admin/api", string(text)); strings.Contains(answer, `"error"`) {
			t.Error(answer)
		}
	}
	for ch, positioned := range map[string]bool{"board:x": true, "pointers:x": false} {
		set(ch, "a", 1)
		set(ch, "b", 2)
		next := o.stream("POST", "/admin/tail", `{"channel":"`+ch+`"}`)
		line := next()
		if !strings.Contains(line, `"key":"a","data":1`) && !strings.Contains(line, `"data":1`) || strings.Count(line, `"key":`) != 2 || strings.Contains(line, `"offset":2`) != positioned {
			t.Errorf("%s: %s", ch, line)
		}
		if line := next(); !strings.Contains(line, `"live":{`) {
			t.Errorf("%s: %s", ch, line)
		}
		set(ch, "b", "new")
		if line := next(); !strings.Contains(line, `"pub":{`) || !strings.Contains(line, `"data":"new"`) || !strings.Contains(line, `"key":"b"`) {
			t.Errorf("%s: %s", ch, line)
		}
		o.ask("POST", "/admin/api", `{"method":"map_remove","params":{"channel":"`+ch+`","key":"a"}}`)
		if line := next(); !strings.Contains(line, `"key":"a"`) || !strings.Contains(line, `"removed":true`) {
			t.Errorf("%s: %s", ch, line)
		}
	}
	// Of a large map the first entries are shown, and it goes on with the changes.
	for ch := range map[string]bool{"board:large": true, "pointers:large": false} {
		var all strings.Builder
		for i := range 1100 {
			fmt.Fprintf(&all, `{"method":"map_publish","params":{"channel":"%s","key":"k%04d","data":%d}}`, ch, i, i)
			if i%100 == 99 {
				o.ask("POST", "/admin/api", all.String())
				all.Reset()
			}
		}
		next := o.stream("POST", "/admin/tail", `{"channel":"`+ch+`"}`)
		if line := next(); strings.Count(line, `"key":`) != 1000 || !strings.Contains(line, `"more":true`) {
			t.Errorf("%s: %d entries, %.200s", ch, strings.Count(line, `"key":`), line)
		}
		if line := next(); !strings.Contains(line, `"live":{`) {
			t.Errorf("%s: %.200s", ch, line)
		}
		set(ch, "k1099", "new")
		if line := next(); !strings.Contains(line, `"data":"new"`) {
			t.Errorf("%s: %.200s", ch, line)
		}
	}
	next := o.stream("POST", "/admin/tail", `{"channel":"board:x"}`)
	next()
	next()
	o.stop() // which ends it, and does not wait for it
	if line := next(); !strings.Contains(line, `"disconnect":{"code":3001`) {
		t.Error(line)
	}
}

// TestAdminTailOfAnyone: nobody else becomes a client by the way of operators.
func TestAdminTailOfAnyone(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, func(cfg *config.Config) { cfg.Admin.HandlerPrefix = "/ops/" })
	o.token = ""
	if status, _ := o.ask("POST", "/admin/tail", `{"channel":"chat:x"}`); status != http.StatusUnauthorized {
		t.Error(status)
	}
	if status, text := o.ask("GET", "/", ""); status != http.StatusOK || !strings.Contains(text, "app.js") {
		t.Error(status, text)
	}
	if status, text := o.ask("GET", "", ""); status != http.StatusOK || !strings.Contains(text, "app.js") { // redirected
		t.Error(status, text)
	}
}

// TestAdminTailByName: a client whose token names the user of operators has no right of theirs.
func TestAdminTailByName(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, nil)
	if outcome, _ := o.connect("gyro:admin").Outcome(`"subscribe":{"channel":"board:x","type":1,"phase":2}`); outcome != "error 103" {
		t.Error(outcome)
	}
}

func TestAdminLog(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, nil)
	next := o.stream("GET", "/admin/logs", "")
	token := o.token
	o.token = "wrong"
	o.ask("GET", "/admin/config", "")
	o.token = token
	for {
		line := next()
		if !json.Valid([]byte(line)) {
			t.Fatal(line)
		}
		if strings.Contains(line, "admin request refused") {
			if !strings.Contains(line, `"level":"warn"`) || !strings.Contains(line, "/admin/config") {
				t.Error(line)
			}
			o.stop() // which does not wait for the stream
			return
		}
	}
}

// TestAdminReload: a new password ends sessions without a restart.
func TestAdminReload(t *testing.T) {
	t.Parallel()
	o := startAdmin(t, nil)
	next := *o.cfg
	next.Admin.Password = "another-password"
	if err := o.app.Reload(&next); err != nil {
		t.Fatal(err)
	}
	if status, _ := o.ask("GET", "/admin/config", ""); status != http.StatusUnauthorized {
		t.Error(status)
	}
	o.token = ""
	if status, _ := o.ask("POST", "/admin/auth", "password=another-password"); status != http.StatusOK {
		t.Error(status)
	}
}

func TestAdminPlace(t *testing.T) {
	t.Parallel()
	// On the internal listener unless it is told otherwise; in the way of nobody.
	cfg := testConfig(func(cfg *config.Config) {
		cfg.Admin.Enabled, cfg.Admin.Insecure, cfg.HTTPAPI.HandlerPrefix = true, true, "/admin/api"
	})
	if _, err := New(cfg, Options{}); err == nil || !strings.Contains(err.Error(), "is taken by another endpoint") {
		t.Error(err)
	}
	cfg = testConfig(func(cfg *config.Config) {
		cfg.Admin.Enabled, cfg.Admin.Insecure, cfg.Admin.WebPath = true, true, "/no/such/folder"
	})
	if _, err := New(cfg, Options{}); err == nil || !strings.Contains(err.Error(), "admin.web_path") {
		t.Error(err)
	}
	for _, external := range []bool{false, true} {
		a := must(New(testConfig(func(cfg *config.Config) {
			cfg.HTTPServer.InternalPort = "1"
			cfg.Admin.Enabled, cfg.Admin.Insecure, cfg.Admin.External = true, true, external
		}), Options{}))
		for _, l := range a.listeners {
			w := httptest.NewRecorder()
			l.Server.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://host/admin/init", nil))
			if served := w.Code == http.StatusOK; served != (external == (l.Name == "external")) {
				t.Errorf("external %t: %s answers %d", external, l.Name, w.Code)
			}
		}
	}
}
