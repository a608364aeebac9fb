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

// Starter returns the text of a minimal file for beginners in a format: json, yaml or toml. In this file nothing is
// open, and all secrets are random. The format env has the secrets alone, as variables whose names begin with the
// prefix.
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

// variables returns the texts of a tree as lines of an environment.
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

// randomText returns n random bytes in base64url.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
