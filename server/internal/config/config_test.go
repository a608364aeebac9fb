package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// load writes text as a file of the given name and loads it.
func load(t testing.TB, name, text string, env []string, flags map[string]string) (*Config, Warnings, error) {
	t.Helper()
	file := ""
	if name != "" {
		file = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(Options{File: file, RequireFile: true, Env: env, Flags: flags})
}

func mustLoad(t testing.TB, name, text string, env ...string) *Config {
	t.Helper()
	c, _, err := load(t, name, text, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q has no %q", err, part)
		}
	}
}

func TestPrecedence(t *testing.T) {
	const file = `{"http_server": {"port": 1}}`
	gyro, centrifugo := "GYRO_HTTP_SERVER_PORT=3", "CENTRIFUGO_HTTP_SERVER_PORT=2"
	for _, tt := range []struct {
		file  string
		env   []string
		flags map[string]string
		want  int
	}{
		{`{}`, nil, nil, 8000},
		{file, nil, nil, 1},
		{file, []string{centrifugo}, nil, 2},
		{file, []string{centrifugo, gyro}, nil, 3},
		{file, []string{centrifugo, "GYRO_HTTP_SERVER_PORT="}, nil, 2},
		{file, []string{"CENTRIFUGO_HTTP_SERVER_PORT="}, nil, 1},
		{file, []string{gyro}, map[string]string{"http_server.port": "4"}, 4},
		{file, []string{gyro}, map[string]string{"http_server.port": "0"}, 8000},
		{`{"http_server": {"port": 0}}`, nil, nil, 8000},
		{`{"http_server": null}`, nil, nil, 8000},
	} {
		c, _, err := load(t, "c.json", tt.file, tt.env, tt.flags)
		if err != nil {
			t.Fatal(err)
		}
		if c.HTTPServer.Port != tt.want {
			t.Errorf("%s %v %v: port %d, want %d", tt.file, tt.env, tt.flags, c.HTTPServer.Port, tt.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, "c.json", `{"channel": {"private_prefix": "", "namespaces": [{"name": "ns"}]},
		"client": {"channel_limit": 0, "ping_interval": "0s"}, "engine": {"redis": {"address": []}}}`)
	got := []any{c.Channel.PrivatePrefix, c.Client.ChannelLimit, c.Client.PingInterval, c.Engine.Redis.Address,
		c.Channel.Namespaces[0].SubscribeProxyName, c.UniSSE.HandlerPrefix, c.WebSocket.HandlerPrefix,
		c.UniWebSocket.HandlerPrefix, c.HTTPStream.HandlerPrefix}
	want := []any{"$", 128, 25 * time.Second, []string{"redis://127.0.0.1:6379"}, "default",
		"/connection/uni_sse", "/connection/websocket", "/connection/uni_websocket", "/connection/http_stream"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default configuration: %v", err)
	}
}

// TestFormats loads the same configuration in every format and from variables.
func TestFormats(t *testing.T) {
	want := mustLoad(t, "c.json", `{
		"Client": {"Allowed_Origins": ["a", "b"], "token": {"hmac_secret_key": "s"}},
		"http_api.key": "k",
		"channel": {"history_meta_ttl": "48h", "namespaces": [{"name": "my-chat", "presence": true, "history_ttl": "1m", "history_size": 5}]}}`)
	for name, text := range map[string]string{
		"c.yaml": "client:\n  allowed_origins: [a, b]\n  token: {hmac_secret_key: s}\nhttp_api: {key: k}\n" +
			"channel:\n  history_meta_ttl: 48h\n  namespaces:\n    - name: my-chat\n      presence: true\n      history_ttl: 1m\n      history_size: 5\n",
		"c.yml": "client.allowed_origins: [a, b]\nclient: {token.hmac_secret_key: x}\nclient.token: {hmac_secret_key: s}\n" +
			"HTTP_API: {KEY: k}\nchannel: {history_meta_ttl: 48h, namespaces: {name: my-chat, presence: 1, history_ttl: 60000000000, history_size: '5'}}\n",
		"c.toml": "http_api.key = 'k'\n[client]\nallowed_origins = ['a', 'b']\ntoken.hmac_secret_key = 's'\n" +
			"[channel]\nhistory_meta_ttl = '48h'\n[[channel.namespaces]]\nname = 'my-chat'\npresence = 'true'\nhistory_ttl = '1m'\nhistory_size = 5\n",
	} {
		if d := cmp.Diff(want, mustLoad(t, name, text)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, prefix := range []string{"GYRO_", "CENTRIFUGO_"} {
		env := []string{"CLIENT_ALLOWED_ORIGINS=a b", "CLIENT_TOKEN_HMAC_SECRET_KEY=s", "HTTP_API_KEY=k",
			"CHANNEL_HISTORY_META_TTL=48h", "CHANNEL_NAMESPACES=my-chat", "CHANNEL_NAMESPACES_MY_CHAT_PRESENCE=true",
			"CHANNEL_NAMESPACES_MY_CHAT_HISTORY_TTL=1m", "CHANNEL_NAMESPACES_MY_CHAT_HISTORY_SIZE=0x5"}
		for i := range env {
			env[i] = prefix + env[i]
		}
		if d := cmp.Diff(want, mustLoad(t, "", "", env...)); d != "" {
			t.Errorf("%s: %s", prefix, d)
		}
	}
}

func TestNamedLists(t *testing.T) {
	const file = `{"channel": {"namespaces": [{"name": "file", "history_size": 1}]}}`
	c := mustLoad(t, "c.json", file, "CENTRIFUGO_CHANNEL_NAMESPACES=a.b  c", "GYRO_CHANNEL_NAMESPACES_A_B_HISTORY_SIZE=2",
		"CENTRIFUGO_CHANNEL_NAMESPACES_A_B_HISTORY_SIZE=3", "CENTRIFUGO_CHANNEL_NAMESPACES_FILE_PRESENCE=1")
	var got []string
	for _, n := range c.Channel.Namespaces {
		got = append(got, n.Name)
	}
	if d := cmp.Diff([]string{"file", "a.b", "c"}, got); d != "" {
		t.Fatal(d)
	}
	if ns := c.Channel.Namespaces; ns[1].HistorySize != 2 || !ns[0].Presence || ns[0].HistorySize != 1 {
		t.Errorf("%+v", ns)
	}
	c, w, err := load(t, "c.json", file, []string{`CENTRIFUGO_CHANNEL_NAMESPACES=[{"Name":"j","history_ttl":"1s","foo":1}]`}, nil)
	if err != nil || len(c.Channel.Namespaces) != 1 || c.Channel.Namespaces[0].HistoryTTL != time.Second || len(w.UnknownKeys) > 0 {
		t.Errorf("%v %+v %v", err, c, w)
	}
	c = mustLoad(t, "", "", "GYRO_CONSUMERS=main", "GYRO_CONSUMERS_MAIN_KAFKA_TLS_ENABLED=true",
		"GYRO_CONSUMERS_MAIN_KAFKA_PUBLICATION_DATA_MODE_CHANNELS_HEADER=x",
		`GYRO_CLIENT_CONNECT_CODE_TO_UNIDIRECTIONAL_DISCONNECT_TRANSFORMS=[{"code":1,"to":{"code":2}}]`)
	if k := c.Consumers[0].Kafka; !k.TLS.Enabled || k.PublicationDataMode.Channels != "x" ||
		k.PublicationDataMode.TagsPrefix != "centrifugo-tag-" || c.Client.UniDisconnectOnConnect.Transforms[0].To.Code != 2 {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"GYRO_CHANNEL_NAMESPACES=[1]", "GYRO_CHANNEL_NAMESPACES=[}]", "GYRO_UNI_SSE_CONNECT_CODE_TO_HTTP_RESPONSE_TRANSFORMS=x"} {
		if _, _, err := load(t, "", "", []string{bad}, nil); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestLenient(t *testing.T) {
	c := mustLoad(t, "c.json", `{"http_server": {"port": "8001", "internal_port": 9001}, "health": {"enabled": 1}, "debug": {"enabled": "T"},
		"client": {"allowed_origins": "a,b", "ping_interval": 25, "pong_timeout": -1, "channel_limit": 2e2, "connection_limit": ""}}`)
	if c.HTTPServer.Port != 8001 || c.HTTPServer.InternalPort != "9001" || !c.Health.Enabled || !c.Debug.Enabled ||
		len(c.Client.AllowedOrigins) != 1 || c.Client.PingInterval != 25 || c.Client.PongTimeout != -1 || c.Client.ChannelLimit != 200 {
		t.Errorf("%+v", c)
	}
}

func TestStringMap(t *testing.T) {
	get := func(text string, env ...string) map[string]string {
		return mustLoad(t, "c.json", `{"rpc": {"proxy": {"http": {"static_headers": `+text+`}}}}`, env...).RPC.Proxy.HTTP.StaticHeaders
	}
	vars := []string{"CENTRIFUGO_VAR_A=1", "GYRO_VAR_B=2"}
	for _, tt := range []struct {
		text string
		env  []string
		want map[string]string
	}{
		{`{"X-A": "1", "n": 5}`, nil, map[string]string{"x-a": "1", "n": "5"}},
		{`[{"key": "X-A", "value": "1"}, {"Key": "x.a"}]`, nil, map[string]string{"X-A": "1", "x.a": ""}},
		{`{"a": "-${CENTRIFUGO_VAR_A}${GYRO_VAR_B}-${HOME}"}`, vars, map[string]string{"a": "-12-${HOME}"}},
		{`{"a": "1"}`, []string{`GYRO_RPC_PROXY_HTTP_STATIC_HEADERS={"X.B": "${GYRO_VAR_B}"}`, "GYRO_VAR_B=2"}, map[string]string{"X.B": "2"}},
	} {
		if d := cmp.Diff(tt.want, get(tt.text, tt.env...)); d != "" {
			t.Errorf("%s: %s", tt.text, d)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		env        []string
		flags      map[string]string
		want       []string
	}{
		{"c.ini", "", nil, nil, []string{"c.ini", `".ini"`}},
		{"c.json", "{\n\n x", nil, nil, []string{"c.json", "line 3", "JSON"}},
		{"c.json", "{\n\"a\":\n", nil, nil, []string{"c.json", "line 2", "ends"}},
		{"c.json", "", nil, nil, []string{"JSON"}},
		{"c.json", "{} {}", nil, nil, []string{"JSON"}},
		{"c.json", "[]", nil, nil, []string{"a list"}},
		{"c.yaml", "a: [", nil, nil, []string{"YAML"}},
		{"c.toml", "a = \n", nil, nil, []string{"TOML", "line 1"}},
		{"c.json", `{"client": 5}`, nil, nil, []string{"client: the given value is not an object"}},
		{"c.json", `{"http_server": {"port": "x"}}`, nil, nil, []string{`http_server.port: "x" is not a whole number`}},
		{"c.json", `{"http_server": {"port": 1.5}}`, nil, nil, []string{`http_server.port: 1.5`}},
		{"c.json", `{"http_server": {"port": 1e30}}`, nil, nil, []string{`http_server.port: 1e30`}},
		{"c.json", `{"health": {"enabled": "yes"}}`, nil, nil, []string{`health.enabled: "yes"`}},
		{"c.json", `{"log": {"level": true}}`, nil, nil, []string{"log.level: true is not a string"}},
		{"c.json", `{"client": {"ping_interval": ""}}`, nil, nil, []string{"client.ping_interval"}},
		{"c.json", `{"client": {"ping_interval": "-1"}}`, nil, nil, []string{"client.ping_interval", `"-1"`, "unit"}},
		{"c.json", `{"client": {"allowed_origins": {"a": 1}}}`, nil, nil, []string{"client.allowed_origins"}},
		{"c.json", `{"channel": {"namespaces": [{"name": "a1"}, {}, {"name": "chat", "history_ttl": "x"}]}}`, nil, nil,
			[]string{`channel.namespaces[2](chat).history_ttl: "x"`}},
		{"c.json", `{"channel": {"namespaces": [7]}}`, nil, nil, []string{"channel.namespaces[0]: the given value is not an object"}},
		{"c.json", `{"log": {"level": "a", "Level": "b"}}`, nil, nil, []string{"given twice"}},
		{"c.json", `{"log": {"level": "a"}, "log.level": "b"}`, nil, nil, []string{`"log.level" is given twice`}},
		{"c.json", `{"rpc": {"proxy": {"http": {"static_headers": {"a.b": "1"}}}}}`, nil, nil, []string{"rpc.proxy.http.static_headers", "dot"}},
		{"c.json", `{"rpc": {"proxy": {"http": {"static_headers": {"a": "${GYRO_VAR_X}"}}}}}`, nil, nil, []string{"static_headers", "GYRO_VAR_X"}},
		{"c.json", `{"rpc": {"proxy": {"http": {"static_headers": [{"key":"a","value":"1"},{"key":"a","value":"1"}]}}}}`, nil, nil, []string{"twice"}},
		{"", "", []string{"CENTRIFUGO_CLIENT_PING_INTERVAL=25"}, nil, []string{"client.ping_interval", "CENTRIFUGO_CLIENT_PING_INTERVAL"}},
		{"", "", []string{"GYRO_HEALTH_ENABLED=on"}, nil, []string{"health.enabled", "GYRO_HEALTH_ENABLED"}},
		{"", "", nil, map[string]string{"grpc_api.port": "x"}, []string{"grpc_api.port", "flag --grpc_api.port"}},
		{"", "", nil, map[string]string{"nope": "x"}, []string{"flag --nope"}},
	} {
		_, _, err := load(t, tt.name, tt.text, tt.env, tt.flags)
		wantError(t, err, tt.want...)
	}
	// Every bad value is reported, and secrets are not.
	_, _, err := load(t, "c.json", `{"http_api": {"key": ["hush"]}, "client": {"token": {"hmac_secret_key": {"hush": 1}}}}`, nil, nil)
	wantError(t, err, "http_api.key", "client.token.hmac_secret_key")
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("secret in %q", err)
	}
	for name, text := range map[string]string{"c.yaml": "http_api:\n  key: hush\n bad", "c.toml": "key = hush", "c.json": `{"key": "hush" x}`} {
		if _, _, err := load(t, name, text, nil, nil); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("secret in %q", err)
		}
	}
}

func TestWarnings(t *testing.T) {
	c, w, err := load(t, "c.json", `{"foo": 1, "channel": {"namespaces": [{"name": "chat", "foo": 1}], "x.y": 2},
		"client": {"insecure": true, "allowed_origins": ["*"]}, "admin": {"insecure": true}}`, []string{
		"CENTRIFUGO_FOO=1", "GYRO_CHANNEL_NAMESPACES_OTHER_PRESENCE=1", "GYRO_CHANNEL_NAMESPACES_CHAT_PRESENCE=1",
		"CENTRIFUGO_VAR_X=1", "CENTRIFUGO_PORT_8000_TCP=1", "CENTRIFUGO_REDIS_SERVICE_HOST=1", "GYRO_SERVICE_PORT=1", "OTHER=1",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"channel.namespaces.[0].foo", "channel.x.y", "foo"}, w.UnknownKeys); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"CENTRIFUGO_FOO", "GYRO_CHANNEL_NAMESPACES_OTHER_PRESENCE"}, w.UnknownEnv); d != "" {
		t.Error(d)
	}
	if len(w.Insecure) != 3 || !c.Channel.Namespaces[0].Presence || len(w.Lines()) != 8 {
		t.Errorf("%+v", w)
	}
	_, w, err = load(t, "c.json", `{"client": {"alllowed_origins": []}, "zzz": 1}`, []string{"CENTRIFUGO_CLIENT_TOKN_ISSUER=x"}, nil)
	if d := cmp.Diff([]string{
		"unknown key in configuration file: client.alllowed_origins (did you mean client.allowed_origins?)",
		"unknown key in configuration file: zzz",
		"unknown environment variable: CENTRIFUGO_CLIENT_TOKN_ISSUER (did you mean CENTRIFUGO_CLIENT_TOKEN_ISSUER?)",
	}, w.Lines()); err != nil || d != "" {
		t.Error(err, d)
	}
	if _, w, err = Load(Options{File: "/nonexistent/c.json"}); err != nil || w.File == "" {
		t.Errorf("a missing file: %v %+v", err, w)
	}
	if _, _, err = Load(Options{File: "/nonexistent/c.json", RequireFile: true}); err == nil {
		t.Error("a missing required file is accepted")
	}
}

func TestDotEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".env")
	if err := LoadDotEnv(file); err != nil {
		t.Errorf("missing: %v", err)
	}
	t.Setenv("GYRO_TEST_SET", "old")
	t.Setenv("GYRO_TEST_NEW", "")
	os.Unsetenv("GYRO_TEST_NEW")
	os.WriteFile(file, []byte("# c\nGYRO_TEST_SET=new\nexport GYRO_TEST_NEW='a b'\n"), 0o600)
	if err := LoadDotEnv(file); err != nil || os.Getenv("GYRO_TEST_SET") != "old" || os.Getenv("GYRO_TEST_NEW") != "a b" {
		t.Errorf("%v %q %q", err, os.Getenv("GYRO_TEST_SET"), os.Getenv("GYRO_TEST_NEW"))
	}
	os.WriteFile(file, []byte("A=1\nB=2\nhush hush\n"), 0o600)
	err := LoadDotEnv(file)
	wantError(t, err, "line 3")
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("content in %q", err)
	}
}

// TestWrite checks that what is written loads as the same configuration, from
// files and from variables.
func TestWrite(t *testing.T) {
	c := mustLoad(t, "c.json", `{"client": {"allowed_origins": ["*", "a\"b\\ü\n"], "ping_interval": "90s"},
		"proxies": [{"name": "p1", "endpoint": "x", "http": {"static_headers": [{"key": "X.y", "value": "null"}], "status_to_code_transforms": [{"status_code": 1}]}}],
		"rpc": {"proxy": {"http": {"static_headers": {"yes": "no"}}}},
		"channel": {"namespaces": [{"name": "chat", "map": {"key_ttl": "1m"}}, {"name": "0x1"}]}, "consumers": [{"name": "c1"}]}`)
	for _, format := range []string{"json", "yaml", "toml"} {
		var buf bytes.Buffer
		if err := c.Write(&buf, format); err != nil {
			t.Fatal(err)
		}
		again, w, err := load(t, "c."+format, buf.String(), nil, nil)
		if err != nil || len(w.UnknownKeys) > 0 {
			t.Fatalf("%s: %v %v\n%s", format, err, w, buf.String())
		}
		if d := cmp.Diff(c, again, emptyEqual); d != "" {
			t.Errorf("%s: %s", format, d)
		}
	}
	var env []string
	for _, line := range DefaultConfig().Env() {
		name, value, _ := strings.Cut(line, "=")
		env = append(env, name+"="+strings.Trim(value, `"`))
	}
	again, w, err := load(t, "", "", env, nil)
	if d := cmp.Diff(DefaultConfig(), again, emptyEqual); err != nil || d != "" || len(w.UnknownEnv) > 0 {
		t.Errorf("variables: %v %v %s", err, w, d)
	}
}

// emptyEqual makes a nil slice or map equal to an empty one, as all code must.
var emptyEqual = cmp.FilterPath(func(p cmp.Path) bool {
	k := p.Last().Type().Kind()
	return k == reflect.Slice || k == reflect.Map
}, cmp.FilterValues(func(a, b any) bool { return reflect.ValueOf(a).Len() == 0 && reflect.ValueOf(b).Len() == 0 }, cmp.Ignore()))

// TestEnvNames checks that no two keys share a variable.
func TestEnvNames(t *testing.T) {
	c := mustLoad(t, "", "", "GYRO_CHANNEL_NAMESPACES=n1", "GYRO_PROXIES=p1", "GYRO_CONSUMERS=c1", "GYRO_RPC_NAMESPACES=r1")
	seen := map[string]bool{}
	for _, line := range c.Env() {
		name, _, _ := strings.Cut(line, "=")
		if seen[name] {
			t.Errorf("%s is given twice", name)
		}
		seen[name] = true
	}
	for _, name := range []string{"GYRO_CLIENT_TOKEN_HMAC_SECRET_KEY", "GYRO_CHANNEL_NAMESPACES_N1_MAP_KEY_TTL", "GYRO_PROXIES_P1_HTTP_TLS_CERT_PEM",
		"GYRO_CONSUMERS_C1_REDIS_STREAM_PUBLICATION_DATA_MODE_TAGS_VALUE_PREFIX", "GYRO_ENGINE_REDIS_PREFIX"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestGenerate(t *testing.T) {
	for _, format := range []string{"json", "yaml", "toml"} {
		text, err := Starter(format, EnvPrefix)
		if err != nil {
			t.Fatal(err)
		}
		c, w, err := load(t, "c."+format, string(text), nil, nil)
		if err != nil || len(w.Lines()) > 0 || len(c.HTTPAPI.Key) != 86 || len(c.Admin.Password) != 22 {
			t.Fatalf("%v %v\n%s", err, w, text)
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var all, one bytes.Buffer
	if err := WriteMarkdown(&all, "", 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## channel\n", "`channel.namespaces[].presence`", "`GYRO_CHANNEL_NAMESPACES_<NAME>_PRESENCE`",
		"| `uni_sse.handler_prefix` | string | `/connection/uni_sse` |", "`pid_file`", "`consumers[].kafka.publication_data_mode.tags_header_prefix`"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if err := WriteMarkdown(&one, "log", 1); err != nil || !strings.HasPrefix(one.String(), "# log\n") || strings.Contains(one.String(), "http") {
		t.Errorf("%v\n%s", err, one.String())
	}
}

// Keys without effect are named with the reason if they are set, wherever from, but not
// when what they are part of is switched off.
func TestIdleKeys(t *testing.T) {
	for text, want := range map[string][]string{
		`{}`: nil,
		`{"websocket":{"read_buffer_size":512,"write_buffer_size":0,"use_write_buffer_pool":true}}`: {
			"websocket.read_buffer_size has no effect: connections share their buffers, which Gyro sizes itself",
			"websocket.use_write_buffer_pool has no effect: connections always share their buffers",
		},
		`{"node":{"info_metrics_aggregate_interval":"60s"}}`: nil, // which is the default
		`{"node":{"info_metrics_aggregate_interval":"61s"}}`: {
			"node.info_metrics_aggregate_interval has no effect: node info has no metrics, prometheus has",
		},
		`{"map_broker":{"cache":{"enabled":true}},"map_brokers":[{"name":"m1","enabled":true,"cache":{"enabled":true}},
			{"name":"m2","enabled":true,"type":"redis","cache":{"enabled":true}},{"name":"m3","cache":{"enabled":true}}]}`: {
			"map_broker.cache.enabled has no effect: maps of type memory are in the memory of the node already",
			"map_brokers[0](m1).cache.enabled has no effect: maps of type memory are in the memory of the node already",
		},
		`{"uni_websocket":{"read_buffer_size":512},"admin":{"password":"x"},"emulation":{"handler_prefix":"/e"}}`: nil,
	} {
		_, w, err := load(t, "c.json", text, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.Idle, want) {
			t.Errorf("%s\ngot %q", text, w.Idle)
		}
	}
	_, w, err := load(t, "", "", []string{"GYRO_WEBSOCKET_WRITE_BUFFER_SIZE=1024"}, nil)
	if err != nil || len(w.Idle) != 1 || !strings.HasPrefix(w.Idle[0], "websocket.write_buffer_size ") || !slices.Contains(w.Lines(), w.Idle[0]) {
		t.Errorf("variable: %q, %v", w.Idle, err)
	}
}

// TestDescribeBudget: each start describes all keys that are flags, so that it may not load a configuration for each.
func TestDescribeBudget(t *testing.T) {
	const key, budget = "uni_http_stream.enabled", 15
	if n := testing.AllocsPerRun(10, func() { Describe(key) }); n > budget {
		t.Errorf("the description of %s takes %v allocations, budget %d", key, n, budget)
	}
}
