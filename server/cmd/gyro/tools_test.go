package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	out := succeed(t, t.TempDir(), "version")
	if !strings.HasPrefix(out, "Gyro v"+version+" (Go version: 1.") {
		t.Errorf("got %q", out)
	}
	if flag := succeed(t, t.TempDir(), "--version"); flag != out {
		t.Errorf("--version: %q", flag)
	}
}

// TestRevision: the commit of a build from a checkout, and whether the checkout had changes.
func TestRevision(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}}
	if got := revision(info); got != "abc" {
		t.Error(got)
	}
	info.Settings[1].Value = "true"
	if got := revision(info); got != "abc and changes" {
		t.Error(got)
	}
	if got := revision(new(debug.BuildInfo)); got != "" {
		t.Error(got)
	}
}

// TestCompletion: shells complete the values of a flag that has a few.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--log.level": "trace debug info warn error fatal none", "--log.format": "auto text json"} {
		out := strings.Fields(succeed(t, t.TempDir(), "__complete", flag, ""))
		if got := strings.Join(out[:min(len(out), len(strings.Fields(want)))], " "); got != want {
			t.Errorf("%s: %s, want %s", flag, got, want)
		}
	}
}

// TestUnknownCommand: a command with a mistake in its name is no server that cannot run.
func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	misuse(t, dir, `Error: there is no command "dcotor": did you mean doctor?`, "dcotor")
	misuse(t, dir, `did you mean checkconfig or checksubtoken or checktoken?`, "check")
	misuse(t, dir, `there is no command "centrifugo"`+"\ngyro --help", "centrifugo", "-c", "config.json")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"version", "x"}, {"version", "--x"}, {"checktoken"}, {"checktoken", "a", "b"},
	} {
		misuse(t, t.TempDir(), "gyro "+args[0]+" --help tells how it is used.", args...)
	}
	if out := succeed(t, t.TempDir(), "--help"); !strings.Contains(out, "--http_server.internal_port") {
		t.Errorf("got %s", out)
	}
}

func TestGenConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "c.yaml", "c.yml", "c.toml"} {
		if out := succeed(t, dir, "genconfig", "-c", name); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		if out := succeed(t, dir, "checkconfig", "-s", "-c", name); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
		fail(t, dir, "exists", "genconfig", "-c", name)
	}
	fail(t, dir, ".ini", "genconfig", "-c", "c.ini")
}

// TestGenConfigEnv: a file of variables has the secrets that a file has, and a server takes them.
func TestGenConfigEnv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out := succeed(t, dir, "genconfig", "-c", "gyro.env"); out != "" {
		t.Error(out)
	}
	fail(t, dir, "exists", "genconfig", "-c", "gyro.env")
	info, err := os.Stat(filepath.Join(dir, "gyro.env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "gyro.env"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(data))
	cfg, warnings, err := config.Load(config.Options{Env: lines})
	if err != nil || len(warnings.UnknownKeys) > 0 || !warnings.FromEnv {
		t.Fatalf("%v %+v", err, warnings)
	}
	if len(lines) != 4 || len(cfg.Client.Token.HMACSecretKey) < 40 || len(cfg.HTTPAPI.Key) < 40 || len(cfg.Admin.Secret) < 40 || cfg.Admin.Password == "" {
		t.Errorf("%d variables", len(lines))
	}
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fail(t, dir, "config.json", "checkconfig")
	write(t, dir, "config.json", `{"client":{"token":{"hmac_secret_kye":"x"}}}`)
	if out := succeed(t, dir, "checkconfig"); out != "Warning: unknown key in configuration file: client.token.hmac_secret_kye (did you mean client.token.hmac_secret_key?)\n" {
		t.Errorf("got %s", out)
	}
	fail(t, dir, "client.token.hmac_secret_kye", "checkconfig", "--strict")
	for text, want := range map[string]string{
		`{`:                               "config.json",
		`{"http_server":{"port":"x"}}`:    "http_server.port",
		`{"client":{"channel_limit":-1}}`: "client.channel_limit",
		`{"channel":{"namespaces":[{"name":"chat","history_size":1}]}}`: "channel.namespaces[0](chat)",
		`{"admin":{"enabled":true}}`:                                    "admin.enabled",
		`{"engine":{"type":"redis","redis":{"address":["a"]}}}`:         "engine.redis.address[0]",
	} {
		write(t, dir, "config.json", text)
		fail(t, dir, want, "checkconfig")
	}
	write(t, dir, "config.json", `{"websocket":{"read_buffer_size":512}}`)
	if out := succeed(t, dir, "checkconfig", "-s"); !strings.HasPrefix(out, "Warning: websocket.read_buffer_size has no effect: ") {
		t.Errorf("got %s", out)
	}
	// Environment variables take part.
	write(t, dir, "config.json", `{}`)
	ends(t, command(t, dir, []string{"CENTRIFUGO_CLIENT_CHANNEL_LIMIT=-5"}, "checkconfig"), 1, "client.channel_limit")
}

// TestJSON: what commands print as text is there as an object, too.
func TestJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	object := func(wantCode int, args ...string) map[string]any {
		t.Helper()
		out, code := run(t, dir, nil, append(args, "--json")...)
		var m map[string]any
		if err := json.Unmarshal([]byte(out), &m); err != nil || code != wantCode || strings.Count(out, "\n") != 1 {
			t.Errorf("%q: %d %v: %s", args, code, err, out)
		}
		return m
	}
	if m := object(0, "version"); m["version"] == "" || m["go"] == "" {
		t.Error(m)
	}
	write(t, dir, "config.json", `{"no_such":1,"client":{"token":{"hmac_secret_key":"s1"},"channel_limit":-1}}`)
	if m := object(1, "checkconfig"); m["valid"] != false || !strings.HasPrefix(fmt.Sprint(m["errors"]), "[client.channel_limit") {
		t.Error(m)
	}
	write(t, dir, "config.json", `{"no_such":1,"websocket":{"read_buffer_size":512},"client":{"token":{"hmac_secret_key":"s1"}}}`)
	if m := object(0, "checkconfig"); m["valid"] != true || fmt.Sprint(m["unknown_keys"]) != "[no_such]" || !strings.Contains(fmt.Sprint(m["warnings"]), "read_buffer_size") {
		t.Error(m)
	}
	object(1, "checkconfig", "--strict")
	made := object(0, "gensubtoken", "-u", "ann", "-s", "news", "-t", "60")
	if made["user"] != "ann" || made["channel"] != "news" || made["expire_at"].(float64) < 1 {
		t.Error(made)
	}
	says := object(0, "checksubtoken", made["token"].(string))
	if says["user"] != "ann" || says["channel"] != "news" || says["expire_at"] != made["expire_at"] || says["payload"].(map[string]any)["sub"] != "ann" || says["token"] != nil {
		t.Error(says)
	}
	if m := object(0, "defaultenv"); m["GYRO_HTTP_SERVER_PORT"] != "8000" || m["GYRO_CHANNEL_PRIVATE_PREFIX"] != "$" {
		t.Error(m)
	}
}

func TestDefaultConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "base.yaml", "http_api:\n  key: the-key\nchannel:\n  namespaces:\n    - name: chat\n      presence: true\n")
	for _, name := range []string{"config.json", "c.yaml", "c.toml"} {
		printed := succeed(t, dir, "defaultconfig", "-d", "-c", name, "-b", "base.yaml")
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: a dry run writes", name)
		}
		succeed(t, dir, "defaultconfig", "-c", name, "-b", "base.yaml")
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(written) != printed {
			t.Errorf("%s: a dry run prints something else (%v)", name, err)
		}
		for _, want := range []string{"the-key", "chat", "720h0m0s", "channel_position_check_delay"} {
			if !strings.Contains(printed, want) {
				t.Errorf("%s: there is no %s", name, want)
			}
		}
		if out := succeed(t, dir, "checkconfig", "-s", "-c", name); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		fail(t, dir, "exists", "defaultconfig", "-c", name)
		// What was written is equivalent: it makes the same file again.
		if again := succeed(t, dir, "defaultconfig", "-d", "-c", name, "-b", name); again != printed {
			t.Errorf("%s: written again it differs", name)
		}
	}
	fail(t, dir, ".ini", "defaultconfig", "-d", "-c", "c.ini")
	fail(t, dir, "absent.json", "defaultconfig", "-d", "-b", "absent.json")
}

func TestDefaultEnv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := strings.Split(strings.TrimSpace(succeed(t, dir, "defaultenv")), "\n")
	if !slices.IsSorted(lines) || !slices.Contains(lines, "GYRO_HTTP_SERVER_PORT=8000") || !slices.Contains(lines, `GYRO_CHANNEL_PRIVATE_PREFIX="$"`) {
		t.Errorf("got %d lines: %.300s", len(lines), strings.Join(lines, "\n"))
	}
	write(t, dir, "base.json", `{"client":{"insecure":true}}`)
	out := succeed(t, dir, "defaultenv", "-b", "base.json", "--base-non-zero-only")
	if out != "GYRO_CLIENT_INSECURE=true\n" {
		t.Errorf("got %.300s", out)
	}
}

func TestConfigDoc(t *testing.T) {
	t.Parallel()
	out := succeed(t, t.TempDir(), "configdoc", "-m", "-s", "http_api", "-l", "2")
	if !strings.HasPrefix(out, "### http_api\n") || !strings.Contains(out, "`GYRO_HTTP_API_KEY`") || strings.Contains(out, "`client.") {
		t.Errorf("got %s", out)
	}
	p := launch(t, t.TempDir(), nil, "serving on http://127.0.0.1:", "configdoc", "-p", "0")
	_, url, _ := strings.Cut(p.text(), "serving on ")
	if got := status(strings.TrimSpace(url)); got != 200 {
		t.Errorf("status %d", got)
	}
	p.signal(os.Interrupt)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.txt", "hello")
	p := launch(t, dir, nil, "serving on http://", "serve", "-p", "0", "-a", "127.0.0.1")
	_, url, _ := strings.Cut(p.text(), "serving on ")
	url = strings.TrimSpace(url)
	if got := status(url + "/a.txt"); got != 200 {
		t.Errorf("status %d", got)
	}
	if got := status(url + "/../main_test.go"); got != 404 {
		t.Errorf("status %d outside", got)
	}
	fail(t, dir, "absent", "serve", "-d", "absent")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "config.json", `{"client":{"token":{"hmac_secret_key":"s1","user_id_claim":"uid"},
		"subscription_token":{"enabled":true,"hmac_secret_key":"s2"}}}`)
	if out := succeed(t, dir, "gentoken", "-u", "ann"); !strings.HasPrefix(out, "HMAC SHA-256 JWT for user \"ann\" with expiration TTL 168h0m0s:\neyJ") {
		t.Errorf("got %s", out)
	}
	if out := succeed(t, dir, "gensubtoken", "-s", "news", "-t", "0"); !strings.HasPrefix(out, "HMAC SHA-256 JWT for anonymous user and channel \"news\" without expiration:\neyJ") {
		t.Errorf("got %s", out)
	}
	token := succeed(t, dir, "gentoken", "-q", "-u", "ann", "-t", "3600")
	if strings.ContainsAny(token, " \n") || strings.Count(token, ".") != 2 {
		t.Errorf("got %q", token)
	}
	out := succeed(t, dir, "checktoken", token)
	_, payload, _ := strings.Cut(out, "payload: ")
	var claims map[string]any
	if err := json.Unmarshal([]byte(payload), &claims); err != nil || claims["sub"] != "ann" || claims["uid"] != "ann" || claims["iat"] == nil || claims["exp"] == nil {
		t.Errorf("claims %v (%v)", claims, err)
	}
	if !strings.Contains(out, `valid connection token for user "ann", expires `) {
		t.Errorf("got %s", out)
	}
	sub := succeed(t, dir, "gensubtoken", "-q", "-s", "news", "-u", "bob")
	if out := succeed(t, dir, "checksubtoken", sub); !strings.Contains(out, `valid subscription token for user "bob" and channel "news"`) {
		t.Errorf("got %s", out)
	}
	// The reason, with algorithm and claims.
	fail(t, dir, `"alg":"HS256"`, "checktoken", sub)
	fail(t, dir, `"channel":"news"`, "checktoken", sub)
	fail(t, dir, "signature", "checksubtoken", token)
	fail(t, dir, "eyJ", "checktoken", "nonsense")
	misuse(t, dir, "channel is required", "gensubtoken")
	write(t, dir, "empty.json", `{}`)
	fail(t, dir, "hmac_secret_key", "gentoken", "-c", "empty.json")
	fail(t, dir, "absent.json", "gentoken", "-c", "absent.json")
}

// TestFromEnvironment: commands need no file where the configuration is in variables.
func TestFromEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := []string{"CENTRIFUGO_CLIENT_TOKEN_HMAC_SECRET_KEY=s1"}
	in := func(env []string, want string, code int, args ...string) string {
		t.Helper()
		out, messages, got := outcome(t, command(t, dir, env, args...))
		if got != code || !strings.Contains(out+messages, want) {
			t.Errorf("%q: exit code %d, want %d and %q: %s%s", args, got, code, want, out, messages)
		}
		return out
	}
	token := in(secret, "eyJ", 0, "gentoken", "-q", "-u", "ann")
	in(secret, `"ann"`, 0, "checktoken", token)
	sub := in(secret, "eyJ", 0, "gensubtoken", "-q", "-s", "news")
	in(secret, `"news"`, 0, "checksubtoken", sub)
	in(secret, "", 0, "checkconfig")
	in([]string{"GYRO_CLIENT_CHANNEL_LIMIT=-5"}, "client.channel_limit", 1, "checkconfig")
	in([]string{"GYRO_CLIENT_CHANNEL_LIMIT=many"}, "client.channel_limit", 1, "checkconfig")
	// No variable of the configuration: nobody said what is to be checked.
	in([]string{"GYRO_SERVICE_HOST=10.0.0.1", "GYRO_UNKNOWN=1"}, "config.json", 1, "checkconfig")
	// A file that was asked for has to be there, and none can be asked for.
	in(secret, "config.json", 1, "checkconfig", "-c", "config.json")
	in(nil, "", 0, "checkconfig", "-c", "")
	in(nil, "hmac_secret_key", 1, "gentoken", "-c", "")
	write(t, dir, "config.json", `{"client":{"channel_limit":-1}}`)
	in(secret, "client.channel_limit", 1, "checkconfig")
}
