package config

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
)

// Starter returns a minimal file for beginners as json, yaml or toml, with random secrets and nothing open. The format
// env has the secrets alone, as variables.
func Starter(format, prefix string) ([]byte, error) {
	tree := map[string]any{
		"client": map[string]any{
			"token":           map[string]any{"hmac_secret_key": randomText(64)},
			"allowed_origins": []string{},
		},
		"admin":    map[string]any{"enabled": false, "password": randomText(16), "secret": randomText(64)},
		"http_api": map[string]any{"key": randomText(64)},
	}
	switch format {
	case "json":
		data, err := json.MarshalIndent(tree, "", "  ")
		return append(data, '\n'), err
	case "yaml":
		return yaml.Marshal(tree)
	case "toml":
		return toml.Marshal(tree)
	case "env":
		return []byte(strings.Join(variables(prefix, tree), "")), nil
	}
	return nil, fmt.Errorf("unknown format %q", format)
}

func variables(prefix string, tree map[string]any) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		name := prefix + strings.ToUpper(key)
		switch value := tree[key].(type) {
		case string:
			lines = append(lines, name+"="+value+"\n")
		case map[string]any:
			lines = append(lines, variables(name+"_", value)...)
		}
	}
	return lines
}

func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
