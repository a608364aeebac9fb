package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

// FuzzValidate gives a file of any format, a variable and a flag: nothing makes
// loading or validating panic, every error names a key of the schema, and what is
// valid stays valid when it is loaded again. (Package schema fuzzes loading itself,
// with a round trip through all formats.)
func FuzzValidate(f *testing.F) {
	f.Add(uint8(0), `{"channel": {"namespaces": [{"name": "a", "history_ttl": "1m"}]}}`, "CHANNEL_NAMESPACES", "b c", uint8(0), "x")
	f.Add(uint8(0), `{"client": {"allowed_origins": ["[a"], "token": {"issuer_regex": "("}}}`, "CLIENT_PING_INTERVAL", "5s", uint8(1), "99999")
	f.Add(uint8(0), `{"proxies": [{"name": "p1", "endpoint": "x", "http": {"status_to_code_transforms": [{}]}}]}`, "CONSUMERS", `[{"name":"c1","type":"kafka","enabled":1}]`, uint8(9), "b")
	f.Add(uint8(1), "client: {token: {hmac_secret_key: s}, allowed_origins: ['*']}\nchannel: {without_namespace: {subscription_type: map}}\n", "ENGINE_TYPE", "redis", uint8(2), "true")
	f.Add(uint8(2), "[http_api]\nkey = 'k'\n[[channel.namespaces]]\nname = 'chat'\npresence = 1\n", "CHANNEL_NAMESPACES_CHAT_HISTORY_SIZE", "0x10", uint8(3), "")
	flags := []string{"log.level", "http_server.port", "client.insecure", "http_api.key", "engine.type", "http_server.internal_port"}
	sections := sectionNames()
	f.Fuzz(func(t *testing.T, format uint8, text, name, value string, flag uint8, flagValue string) {
		tree, err := schema.ParseFile([]string{"json", "yaml", "toml"}[format%3], []byte(text))
		if err != nil {
			return
		}
		src := schema.Source{
			Prefixes: envPrefixes, File: tree,
			Env: map[string]string{EnvPrefix + name: value},
		}
		if int(flag) < len(flags) {
			src.Flags = map[string]string{flags[flag]: flagValue}
		}
		c, again := new(Config), new(Config)
		if _, err := schema.Load(c, src); err != nil {
			return
		}
		if _, err := schema.Load(again, src); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("loading again makes a difference: %v", err)
		}
		for _, err := range flatten(c.Validate()) {
			section := err.Error()[:max(strings.IndexAny(err.Error(), ".[:"), 0)]
			if !sections[section] {
				t.Errorf("error without a key: %v", err)
			}
		}
	})
}

func sectionNames() map[string]bool {
	names := map[string]bool{}
	for i := range reflect.TypeFor[Config]().NumField() {
		names[reflect.TypeFor[Config]().Field(i).Tag.Get("key")] = true
	}
	return names
}

// flatten returns the errors that an error joins.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// FuzzDotEnv checks that the place of a mistake can be told whatever the text.
func FuzzDotEnv(f *testing.F) {
	f.Add("A=1\nB='x\ny'\nC\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		if n := badLine(text); n < 1 || n > lines {
			t.Errorf("line %d of %d", n, lines)
		}
	})
}
