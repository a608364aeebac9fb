package config

import (
	"encoding/json"
	"io"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

// Write writes every key of the configuration as a file of the given format:
// json, yaml or toml. The file is loadable and equivalent; secrets are written.
func (c *Config) Write(w io.Writer, format string) error { return schema.Write(w, c, format) }

// Env returns the variables that would set every key, as sorted lines
// NAME="value".
func (c *Config) Env() []string { return schema.Env(c, EnvPrefix, nil) }

// EnvOfFile is Env for the keys that the configuration file of opts sets, to values that are not empty.
func EnvOfFile(opts Options) ([]string, error) {
	c, report, _, err := read(opts)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, err
	}
	return schema.Env(c, EnvPrefix, report.Given), nil
}

// WriteMarkdown writes the reference of all keys, or of one section, with headings from the given level on.
func WriteMarkdown(w io.Writer, section string, level int) error {
	return schema.WriteMarkdown(w, DefaultConfig(), EnvPrefix, section, level)
}

// WriteJSONSchema writes the JSON schema of configuration files, for editors.
func WriteJSONSchema(w io.Writer) error {
	return schema.WriteJSONSchema(w, DefaultConfig(), "Configuration of Gyro")
}

// Describe returns the text of the reference about a key, which also tells whether this build supports it. Values do
// not matter to it, so it loads no defaults.
func Describe(key string) string { return schema.Describe(new(Config), key) }

// Flags returns the keys that the program has flags for, with their defaults.
func Flags() []schema.Flag { return schema.Flags(DefaultConfig()) }

// Format returns the format of a configuration file by its extension: json, yaml
// or toml.
func Format(file string) (string, error) { return schema.Format(file) }

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
