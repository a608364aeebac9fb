package config

import (
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/config/internal/schema"
)

// FuzzValidate checks that no text and no variable makes loading or validating
// panic, and that every error names a key. (Package schema fuzzes loading itself,
// with a round trip through all formats.)
func FuzzValidate(f *testing.F) {
	f.Add(`{"channel": {"namespaces": [{"name": "a", "history_ttl": "1m"}]}}`, "CHANNEL_NAMESPACES", "b c")
	f.Add(`{"client": {"allowed_origins": ["[a"], "token": {"issuer_regex": "("}}}`, "CLIENT_PING_INTERVAL", "5s")
	f.Add(`{"proxies": [{"name": "p1", "endpoint": "x", "http": {"status_to_code_transforms": [{}]}}]}`, "CONSUMERS", `[{"name":"c1","type":"kafka","enabled":1}]`)
	f.Fuzz(func(t *testing.T, text, name, value string) {
		tree, err := schema.ParseFile("json", []byte(text))
		if err != nil {
			return
		}
		c := new(Config)
		_, err = schema.Load(c, schema.Source{Prefixes: envPrefixes, File: tree, Env: map[string]string{EnvPrefix + name: value}})
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil && !strings.Contains(err.Error(), ": ") {
			t.Errorf("error without a key: %v", err)
		}
	})
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
