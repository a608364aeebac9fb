package config

import (
	"encoding/json"
	"io"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

// Write writes every key, with secrets, as json, yaml or toml. Loading the text gives the same configuration.
func (c *Config) Write(w io.Writer, format string) error { return schema.Write(w, c, format) }

// Env returns the variables for every key, as sorted lines NAME="value".
func (c *Config) Env() []string { return schema.Env(c, EnvPrefix, nil) }

// EnvOfFile is Env for the keys that the file of opts sets, without empty values.
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

// WriteMarkdown writes the reference of all keys or of a section, with headings from a level on.
func WriteMarkdown(w io.Writer, section string, level int) error {
	return schema.WriteMarkdown(w, DefaultConfig(), EnvPrefix, section, level)
}

// WriteJSONSchema writes the JSON schema of files, for editors.
func WriteJSONSchema(w io.Writer) error {
	return schema.WriteJSONSchema(w, DefaultConfig(), "Configuration of Gyro")
}

// Describe returns the reference text of a key. It loads no defaults.
func Describe(key string) string { return schema.Describe(new(Config), key) }

// Flags returns the keys with flags of the program.
func Flags() []schema.Flag { return schema.Flags(DefaultConfig()) }

// Format returns the format of a file by its extension: json, yaml or toml.
func Format(file string) (string, error) { return schema.Format(file) }

// View lists all keys with their values as a JSON list of objects (see schema.Item). Secrets and users of URLs are
// hidden.
func (c *Config) View() json.RawMessage { return view(c, DefaultConfig()) }

// ViewOptions is View for options of a channel.
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
