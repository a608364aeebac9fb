package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretFile writes a file with a secret and returns its name.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSecretsFromFiles(t *testing.T) {
	key, list, headers := secretFile(t, "from-file\r\n"), secretFile(t, "redis://a:1\nredis://b:2\n"), secretFile(t, `{"Authorization": "Bearer x"}`)
	c := mustLoad(t, "c.yaml", "http_api: {key_file: "+key+", keys: [{name: ci, key_file: "+key+"}]}\n"+
		"engine: {redis: {address_file: "+list+"}}\n", "GYRO_CLIENT_TOKEN_HMAC_SECRET_KEY_FILE="+key,
		"CENTRIFUGO_PROXIES=p", "GYRO_PROXIES_P_HTTP_STATIC_HEADERS_FILE="+headers)
	got := []any{c.HTTPAPI.Key, c.HTTPAPI.Keys[0].Key, c.Client.Token.HMACSecretKey, c.Engine.Redis.Address, c.Proxies[0].HTTP.StaticHeaders}
	want := []any{"from-file", "from-file", "from-file", []string{"redis://a:1", "redis://b:2"}, map[string]string{"Authorization": "Bearer x"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// The file that a variable names wins over the one that the file names.
	other := secretFile(t, "other\n\n")
	c, w, err := load(t, "c.json", `{"$schema": "./s.json", "http_api": {"key": "", "key_file": "`+key+`"}}`, []string{"GYRO_HTTP_API_KEY_FILE=" + other}, nil)
	if err != nil || c.HTTPAPI.Key != "other\n" || len(w.Lines()) > 0 {
		t.Errorf("%q %q %v", c.HTTPAPI.Key, w.Lines(), err)
	}
}

func TestBadSecretFiles(t *testing.T) {
	key := secretFile(t, "secret-nonsense\n")
	for _, tt := range []struct {
		file  string
		env   []string
		parts []string
	}{
		{`{"http_api": {"key": "secret-nonsense", "key_file": "` + key + `"}}`, nil, []string{"http_api.key: ", "http_api.key_file", "the configuration file"}},
		{
			`{"http_api": {"key_file": "` + key + `"}}`,
			[]string{"GYRO_HTTP_API_KEY=secret-nonsense"},
			[]string{"http_api.key: ", "http_api.key_file", "GYRO_HTTP_API_KEY"},
		},
		{
			`{"http_api": {"key": "secret-nonsense"}}`,
			[]string{"GYRO_HTTP_API_KEY_FILE=" + key},
			[]string{"http_api.key: ", "http_api.key_file (from variable GYRO_HTTP_API_KEY_FILE)"},
		},
		{`{"http_api": {"key_file": "/not/there"}}`, nil, []string{"http_api.key_file: ", "/not/there"}},
		{`{"http_api": {"key_file": 1}}`, nil, []string{"http_api.key_file: "}},
		{`{"http_api": {"key_file": "` + secretFile(t, "\n") + `"}}`, nil, []string{"http_api.key_file: ", "is empty"}},
		{`{"http_api": {"key_file": "` + secretFile(t, "a\xff") + `"}}`, nil, []string{"http_api.key_file: ", "UTF-8"}},
		{`{"http_api": {"key_file": "` + secretFile(t, strings.Repeat("x", 64<<10+1)) + `"}}`, nil, []string{"http_api.key_file: ", "65536 bytes"}},
		{`{"client": {"proxy": {"connect": {"http": {"static_headers_file": "` + key + `"}}}}}`, nil, []string{"client.proxy.connect.http.static_headers_file: "}},
	} {
		_, _, err := load(t, "c.json", tt.file, tt.env, nil)
		wantError(t, err, tt.parts...)
		if err != nil && strings.Contains(err.Error(), "secret-nonsense") {
			t.Errorf("%s %v: the error tells the secret: %v", tt.file, tt.env, err)
		}
	}
	_, w, err := load(t, "c.json", `{"http_api": {"key_fle": "x"}, "client": {"insecure_file": "x"}}`, []string{"GYRO_HTTP_API_KEY_FIEL=x"}, nil)
	if err != nil || !slices.Contains(w.Lines(), "unknown key in configuration file: http_api.key_fle (did you mean http_api.key_file?)") || len(w.UnknownKeys) != 2 ||
		!strings.Contains(strings.Join(w.Lines(), "\n"), "GYRO_HTTP_API_KEY_FIEL (did you mean GYRO_HTTP_API_KEY_FILE?)") {
		t.Errorf("%q %v", w.Lines(), err)
	}
}

// TestSecretKeys: all secrets can be in files, but for those whose own keys take a path.
func TestSecretKeys(t *testing.T) {
	var doc strings.Builder
	if err := WriteMarkdown(&doc, "", 1); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"client.token.hmac_secret_key", "http_api.key", "http_api.keys[].key", "admin.password", "admin.secret", "engine.redis.password", "engine.redis.address",
		"broker.nats.url", "broker.postgres.dsn", "client.proxy.connect.http.static_headers", "consumers[].kafka.sasl_password",
		"shared_poll.hmac_secret_key",
	} {
		name := key[strings.LastIndexByte(key, '.')+1:] + "_file"
		i := strings.Index(doc.String(), "| `"+key+"` |")
		if i < 0 {
			t.Errorf("%s is not documented", key)
			continue
		}
		line, _, _ := strings.Cut(doc.String()[i:], "\n")
		if !strings.Contains(line, "`"+name+"` names a file") {
			t.Errorf("%s has no file: %s", key, line)
		}
	}
	if strings.Contains(doc.String(), "key_pem_file") || strings.Contains(doc.String(), "session_ticket_secret_file` names") {
		t.Error("a key that takes a path has another one for it")
	}
}
