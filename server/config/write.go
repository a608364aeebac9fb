package config

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"

	"github.com/gyrohq/gyro/server/config/internal/schema"
)

// Write writes every key of the configuration as a file of the given format:
// json, yaml or toml. The file is loadable and equivalent; secrets are written.
func (c *Config) Write(w io.Writer, format string) error { return schema.Write(w, c, format) }

// Env returns the variables that would set every key, as sorted lines
// NAME="value"; with nonZero, only those of non-empty values.
func (c *Config) Env(nonZero bool) []string { return schema.Env(c, EnvPrefix, nonZero) }

// WriteMarkdown writes the reference of all keys, or of those of one section, with
// headings from the given level on.
func WriteMarkdown(w io.Writer, section string, level int) error {
	return schema.WriteMarkdown(w, DefaultConfig(), EnvPrefix, section, level)
}

// WriteJSONSchema writes the JSON schema of configuration files, for editors.
func WriteJSONSchema(w io.Writer) error {
	return schema.WriteJSONSchema(w, DefaultConfig(), "Configuration of Gyro")
}

// Describe returns what the reference says of a key: also whether this build does it.
func Describe(key string) string { return schema.Describe(DefaultConfig(), key) }

// Format returns the format of a configuration file by its extension: json, yaml
// or toml.
func Format(file string) (string, error) { return schema.Format(file) }

// Generate returns the text of a minimal file with fresh random secrets in the given format. That of env has the
// secrets alone, as variables.
func Generate(format string) ([]byte, error) {
	tree := map[string]any{
		"client": map[string]any{
			"token":           map[string]any{"hmac_secret_key": secret(64)},
			"allowed_origins": []string{},
		},
		"admin":    map[string]any{"enabled": false, "password": secret(16), "secret": secret(64)},
		"http_api": map[string]any{"key": secret(64)},
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
		return []byte(strings.Join(variables(EnvPrefix, tree), "")), nil
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

// secret returns n random bytes in base64url.
func secret(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// View lists all keys with their values for people to read, as a JSON list of objects: key, value, default,
// changed, secret, reload, idle and doc. Secrets and the users of URLs are hidden.
func (c *Config) View() json.RawMessage { return view(c, DefaultConfig()) }

// ViewOptions lists the options of a channel in the same way.
func ViewOptions(o *ChannelOptions) json.RawMessage {
	return view(o, &DefaultConfig().Channel.WithoutNamespace)
}

func view(of, def any) json.RawMessage {
	text, err := json.Marshal(schema.View(of, def))
	if err != nil {
		panic(err) // texts, numbers and lists of them
	}
	return text
}
