package app

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

// Secrets of the tests; none of them may show up in a log.
const (
	tokenSecret = "hmac-secret-of-the-tests"
	apiKey      = "api-key-of-the-tests"
)

// testServer is a server with real listeners on loopback.
type testServer struct {
	t    *testing.T
	app  *App
	cfg  *config.Config
	logs *logBuffer
	// expected is part of the errors that the test wants in the log: one of several texts, with | between them.
	expected string
	// secrets must not be logged.
	mu      sync.Mutex
	secrets []string
}

type logBuffer = logtest.Buffer

// testConfig is a configuration for tests: any port, one secret for tokens, no pings, and clients that are slow to connect on
// a busy machine are not stale.
func testConfig(edit func(*config.Config)) *config.Config {
	cfg := config.DefaultConfig()
	cfg.HTTPServer.Address, cfg.HTTPServer.Port = "127.0.0.1", 0
	cfg.Client.Token.HMACSecretKey = tokenSecret
	cfg.HTTPAPI.Key = apiKey
	cfg.Client.PingInterval, cfg.Client.PongTimeout, cfg.Client.StaleCloseDelay = -1, -2, wait.Limit
	if edit != nil {
		edit(cfg)
	}
	return cfg
}

// testNamespace returns a namespace with default options, edited.
func testNamespace(name string, edit func(*config.ChannelOptions)) config.Namespace {
	n := config.Namespace{Name: name, ChannelOptions: config.DefaultConfig().Channel.WithoutNamespace}
	if edit != nil {
		edit(&n.ChannelOptions)
	}
	return n
}

func addNamespace(cfg *config.Config, name string, edit func(*config.ChannelOptions)) {
	cfg.Channel.Namespaces = append(cfg.Channel.Namespaces, testNamespace(name, edit))
}

// startServer starts a server, which is shut down with the test. Everything is
// logged, and the log searched for secrets at the end.
func startServer(t *testing.T, edit func(*config.Config)) *testServer {
	t.Helper()
	return startServerAt(t, "trace", edit)
}

// startServerAt is startServer with another log level.
func startServerAt(t *testing.T, level string, edit func(*config.Config)) *testServer {
	t.Helper()
	s := &testServer{t: t, cfg: testConfig(edit), logs: new(logBuffer), expected: "expected by the test", secrets: []string{tokenSecret, apiKey}}
	var err error
	s.app, err = New(s.cfg, Options{Version: "test", Logger: logs.To(s.logs, level, false)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.app.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// startVirtual starts a server without listeners, for virtual time: clients connect by pipe.
func startVirtual(t *testing.T, edit func(*config.Config)) *testServer {
	t.Helper()
	s := &testServer{t: t, cfg: testConfig(edit), logs: new(logBuffer), expected: "expected by the test"}
	s.app = must(New(s.cfg, Options{Version: "test", Logger: logs.To(s.logs, "trace", false)}))
	if err := s.app.node.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// pipe opens a connection in memory, without a connect command.
func (s *testServer) pipe() *wstest.Client {
	s.t.Helper()
	return wstest.Pipe(s.t, s.app.node)
}

func (s *testServer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	if err := s.app.Shutdown(ctx); err != nil {
		s.t.Errorf("shutdown: %v", err)
	}
	logs := s.logs.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.secrets {
		if strings.Contains(logs, secret) {
			s.t.Errorf("a secret is in the log: %s", secret)
		}
	}
	for line := range strings.Lines(logs) {
		if !json.Valid([]byte(line)) {
			s.t.Errorf("log line is not JSON: %s", line)
		}
		wanted := func(text string) bool { return strings.Contains(line, text) }
		if strings.Contains(line, `"level":"error"`) && !slices.ContainsFunc(strings.Split(s.expected, "|"), wanted) {
			s.t.Errorf("error logged: %s", line)
		}
	}
}

// awaitLog waits until the log has all texts. The server writes many lines on goroutines of its
// own, also after the client has its answer.
func (s *testServer) awaitLog(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if !s.logs.Await(func(logs string) bool { return strings.Contains(logs, text) }) {
			s.t.Errorf("%s is not in the log:\n%s", text, s.logs)
		}
	}
}

// logged is what has been logged so far. Use awaitLog for lines that have to come.
func (s *testServer) logged() string {
	s.t.Helper()
	if err := logging.Flush(s.app.log); err != nil {
		s.t.Error(err)
	}
	return s.logs.String()
}

func (s *testServer) url(path string) string { return "http://" + s.app.Addr("external") + path }

// dial opens a JSON connection, without a connect command.
func (s *testServer) dial(header http.Header) *wstest.Client {
	s.t.Helper()
	return wstest.Dial(s.t, s.url("/connection/websocket"), header)
}

// connect opens a connection of a user, "" for an anonymous one.
func (s *testServer) connect(user string) *wstest.Client {
	s.t.Helper()
	c := s.dial(nil)
	c.Connect(s.tokenField(jwt.MapClaims{"sub": user}))
	return c
}

// token signs claims with tokenSecret by HS256.
func (s *testServer) token(claims jwt.MapClaims) string {
	s.t.Helper()
	return s.sign(jwt.SigningMethodHS256, []byte(tokenSecret), claims)
}

func (s *testServer) tokenField(claims jwt.MapClaims) string {
	s.t.Helper()
	return `"token":"` + s.token(claims) + `"`
}

func (s *testServer) sign(method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	s.t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		s.t.Fatal(err)
	}
	// The signature is what makes it a secret, and unlike the payload it is no part
	// of other tokens.
	s.mu.Lock()
	defer s.mu.Unlock()
	if parts := strings.Split(token, "."); parts[2] != "" {
		s.secrets = append(s.secrets, parts[2])
	}
	return token
}

// api calls a method of the HTTP API, which must not fail, and returns the answer.
func (s *testServer) api(method, body string) string {
	s.t.Helper()
	status, answer := s.post("/api/"+method, body)
	if status != http.StatusOK || strings.Contains(answer, `"error"`) {
		s.t.Fatalf("API %s %s: %d %s", method, body, status, answer)
	}
	return answer
}

func (s *testServer) post(path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url(path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", apiKey)
	return do(s.t, http.DefaultClient, req)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, http.DefaultClient, req)
}

func do(t *testing.T, c *http.Client, req *http.Request) (int, string) {
	t.Helper()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// must returns the value of a call that cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var discard = slog.New(slog.DiscardHandler)

func unix(d time.Duration) int64 { return time.Now().Add(d).Unix() }
