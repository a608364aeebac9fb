package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

// fill gives every text of a configuration a value of its own, and lists two elements each. It returns the values
// of those that are marked as secrets.
func fill(v reflect.Value, secret bool, n *int) (secrets []string) {
	text := func() string {
		*n++
		s := fmt.Sprintf("text-%d-end", *n)
		if secret {
			secrets = append(secrets, s)
		}
		return s
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			marked := strings.Contains(","+f.Tag.Get("opt")+",", ",secret,")
			secrets = append(secrets, fill(v.Field(i), secret || marked, n)...)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			secrets = append(secrets, fill(v.Index(i), secret, n)...)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name"), reflect.ValueOf(text()))
	case reflect.String:
		v.SetString(text())
	case reflect.Bool:
		v.SetBool(true)
	}
	return secrets
}

// TestViewHidesSecrets: no value that the schema marks as a secret is shown, and all others are.
func TestViewHidesSecrets(t *testing.T) {
	c, n := DefaultConfig(), 0
	secrets := fill(reflect.ValueOf(c).Elem(), false, &n)
	if len(secrets) < 60 {
		t.Fatalf("only %d secrets in the schema", len(secrets))
	}
	shown := c.View()
	hidden := make(map[string]bool)
	for _, s := range secrets {
		hidden[s] = true
	}
	seen := make(map[string]bool)
	for _, s := range regexp.MustCompile(`text-\d+-end`).FindAllString(string(shown), -1) {
		seen[s] = true
	}
	for i := 1; i <= n; i++ {
		if s := fmt.Sprintf("text-%d-end", i); seen[s] == hidden[s] {
			t.Errorf("%s: shown %t, secret %t", s, seen[s], hidden[s])
		}
	}
}

// TestViewHidesURLs: whatever text is a URL, its user, its password and the secrets of its query are not shown.
func TestViewHidesURLs(t *testing.T) {
	for _, text := range []string{
		"https://hush@host/x", "https://user:hush@host/x", "redis://:hush@host:6379/1", "postgres://user:hu%40hush@h1,h2/db?sslmode=require",
		"https://host/x?token=hush", "https://host/x?a=1&API_KEY=hush&b=2", "https://host/?access_token=hush#top", "https://host/x?sslpassword=hush&Signature=hush",
		"nats://user:hush@a:4222,nats://user:hush@b:4222",
	} {
		c, n := DefaultConfig(), 0
		texts := fillTexts(reflect.ValueOf(c).Elem(), text, &n)
		if texts < 100 {
			t.Fatalf("only %d texts in the schema", texts)
		}
		if shown := string(c.View()); strings.Contains(shown, "hush") {
			at := strings.Index(shown, "hush")
			t.Errorf("%s: %s", text, shown[max(0, at-200):at+10])
		}
	}
	c := DefaultConfig()
	c.Admin.WebProxyAddress = "https://host:80/x?page=2"
	if !strings.Contains(string(c.View()), `"https://host:80/x?page=2"`) {
		t.Error("a URL without secrets is not shown")
	}
}

// fillTexts sets all texts of a configuration, and returns how many there are.
func fillTexts(v reflect.Value, text string, n *int) int {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("key") != "name" { // which is in the keys themselves, and has a form of its own
				fillTexts(v.Field(i), text, n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTexts(v.Index(0), text, n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name"), reflect.ValueOf(text))
		*n++
	case reflect.String:
		v.SetString(text)
		*n++
	}
	return *n
}

// TestViewHidesFiles: a secret from a file is one like the others. All secrets come from files here.
func TestViewHidesFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from-a-file-hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, count := make(map[string]any), 0
	for _, item := range schema.View(DefaultConfig(), DefaultConfig()) {
		if _, isText := item.Value.(string); !item.Secret || !isText || strings.Contains(item.Key, "[") {
			continue
		}
		parts, at := strings.Split(item.Key, "."), tree
		for _, part := range parts[:len(parts)-1] {
			below, ok := at[part].(map[string]any)
			if !ok {
				below = make(map[string]any)
				at[part] = below
			}
			at = below
		}
		at[parts[len(parts)-1]+"_file"] = file
		count++
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, "c.json", string(text))
	if c.Admin.Password != "from-a-file-hush" || count < 30 {
		t.Fatalf("%d secrets, the password is %q", count, c.Admin.Password)
	}
	if shown := string(c.View()); strings.Contains(shown, "hush") {
		at := strings.Index(shown, "hush")
		t.Error(shown[max(0, at-200) : at+10])
	}
}

// notSecret are the keys whose names sound like secrets, and which are none.
var notSecret = []string{
	"_key_valid_until", "public_key", "key_ttl", "_key.", "key_prefix", "client_key", "max_keys", "credentials_key", "_secret_file", "credentials_file",
	"client_connect_without_token", "connection_tokens", "skip_token_signature", "idempotency_key", "use_azure_identity", "credentials_profile",
	"_token.", "token.", "_keys",
}

// TestSecretsAreMarked: a key that sounds like a secret is one, or is known to be none.
func TestSecretsAreMarked(t *testing.T) {
	c, n := DefaultConfig(), 0
	fill(reflect.ValueOf(c).Elem(), false, &n)
	for _, item := range schema.View(c, DefaultConfig()) {
		name := item.Key[strings.LastIndexByte(item.Key, '.')+1:]
		sounds := false
		for _, word := range []string{"password", "secret", "dsn", "api_key", "hmac", "key_pem", "token"} {
			sounds = sounds || strings.Contains(name, word)
		}
		known := item.Secret
		for _, part := range notSecret {
			known = known || strings.Contains(name, part)
		}
		if _, isText := item.Value.(string); sounds && isText && !known {
			t.Errorf("%s is not marked as a secret", item.Key)
		}
	}
}

func TestView(t *testing.T) {
	c := mustLoad(t, "c.json", `{"http_api":{"key":"hush"},"node":{"name":"n"},"client":{"proxy":{"connect":{"endpoint":"https://user:hush@backend/x"}}},
		"engine":{"redis":{"address":["redis://:hush@r:6379"]}},"channel":{"namespaces":[{"name":"chat","presence":true}]}}`)
	items := make(map[string]schema.Item)
	for _, i := range schema.View(c, DefaultConfig()) {
		items[i.Key] = i
	}
	for key, want := range map[string]schema.Item{
		"http_api.key":                         {Value: "(hidden)", Changed: true, Secret: true},
		"grpc_api.key":                         {Value: "", Secret: true},
		"node.name":                            {Value: "n", Changed: true},
		"client.ping_interval":                 {Value: "25s"},
		"client.proxy.connect.endpoint":        {Value: "https://(hidden)@backend/x", Changed: true},
		"engine.redis.address":                 {Value: []string{"(hidden)"}, Changed: true, Secret: true},
		"broker.redis.address":                 {Value: []string{"redis://127.0.0.1:6379"}, Secret: true}, // the default is no secret
		"channel.namespaces[0](chat).presence": {Value: true, Changed: true},
		"channel.without_namespace.presence":   {Value: false},
	} {
		got, ok := items[key]
		if !ok || !reflect.DeepEqual(got.Value, want.Value) || got.Changed != want.Changed || got.Secret != want.Secret {
			t.Errorf("%s: %+v", key, got)
		}
	}
	if !items["http_api.key"].Reload || items["node.name"].Reload || !strings.Contains(items["http_api.key"].Doc, "Key of backends") {
		t.Error("reload and documentation", items["http_api.key"], items["node.name"])
	}
	options := string(ViewOptions(&c.Channel.Namespaces[0].ChannelOptions))
	if !strings.Contains(options, `{"key":"presence","value":true,"changed":true,`) || !strings.Contains(options, `{"key":"join_leave","value":false,"doc"`) {
		t.Error(options)
	}
}

func TestAdmin(t *testing.T) {
	for text, want := range map[string]string{
		`{"enabled":true}`:                                                             "admin.enabled",
		`{"enabled":true,"password":"p"}`:                                              "admin.secret",
		`{"enabled":true,"password":"p","secret":"s"}`:                                 "",
		`{"enabled":true,"insecure":true}`:                                             "",
		`{"enabled":true,"api_key":"0123456789abcdef"}`:                                "",
		`{"api_key":"short"}`:                                                          "admin.api_key",
		`{"enabled":true,"insecure":true,"web_proxy_address":"localhost:5173"}`:        "admin.web_proxy_address",
		`{"enabled":true,"insecure":true,"web_proxy_address":"http://localhost:5173"}`: "",
		`{"enabled":true,"insecure":true,"session_ttl":"1s"}`:                          "admin.session_ttl",
	} {
		c := mustLoad(t, "c.json", `{"admin":`+text+`}`)
		switch err := c.Validate(); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "":
			wantError(t, err, want)
		}
	}
	_, w, err := load(t, "c.json", `{"admin":{"enabled":true,"password":"p","secret":"s"}}`, nil, nil)
	if lines := strings.Join(w.Lines(), "\n"); err != nil || !strings.Contains(lines, "admin.password") || !strings.Contains(lines, "admin.secret") {
		t.Error(err, lines)
	}
}
