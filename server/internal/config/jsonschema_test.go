package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiled is the schema, checked against that of its draft.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var text bytes.Buffer
	if err := WriteJSONSchema(&text); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("gyro.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("gyro.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance parses a configuration for the schema.
func instance(t *testing.T, format, text string) any {
	t.Helper()
	var v any
	var err error
	switch format {
	case "json":
		err = json.Unmarshal([]byte(text), &v)
	case "yaml":
		err = yaml.Unmarshal([]byte(text), &v)
	case "toml":
		err = toml.Unmarshal([]byte(text), &v)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJSONSchemaOfDefaults(t *testing.T) {
	s := compiled(t)
	for _, format := range []string{"json", "yaml", "toml"} {
		var text strings.Builder
		if err := DefaultConfig().Write(&text, format); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance(t, format, text.String())); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		generated, err := Starter(format, EnvPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance(t, format, string(generated))); err != nil {
			t.Errorf("generated %s: %v", format, err)
		}
	}
}

// TestJSONSchemaOfDocs: the schema accepts what the documentation shows.
func TestJSONSchemaOfDocs(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	block := regexp.MustCompile("(?ms)^( *)```(json|yaml|toml)([^\n]*)\n(.*?)^ *```")
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(m[3])
			if len(words) == 0 || words[0] != "config" && words[0] != "checked" {
				continue
			}
			body := strings.TrimSpace(m[4])
			if m[2] == "json" && !strings.HasPrefix(body, "{") {
				body = "{" + body + "}" // a part of a file
			}
			checked++
			if err := s.Validate(instance(t, m[2], body)); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(file), err, m[4])
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d configurations found in the documentation", checked)
	}
}

func TestJSONSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for _, text := range []string{
		`{"http_server": {"port": 70000}}`, `{"http_server": {"port": "x"}}`, `{"htp_server": {}}`, `{"client": {"ping_interval": 25}}`,
		`{"client": {"ping_interval": "25"}}`, `{"client": {"ping_interval": ""}}`, `{"http_api": {"error_mode": "trans"}}`, `{"channel": {"namespaces": [{"nam": "x"}]}}`,
		`{"http_api": {"key_file": 1}}`, `{"client": {"allowed_origins": [1]}}`, `{"client": {"insecure": "yes"}}`,
		`{"client": {"proxy": {"connect": {"http": {"static_headers": {"a.b": "x"}}}}}}`,
	} {
		if s.Validate(instance(t, "json", text)) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	for _, text := range []string{
		`{"$schema": "x", "http_api.key": "k", "http_api": {"key_file": "/run/secrets/key"}}`, `{"client": {"allowed_origins": "*", "ping_interval": "1m30.5s"}}`,
		`{"client": {"ping_interval": -1, "pong_timeout": 0}}`, `{"client": {"proxy": {"connect": {"http": {"static_headers": [{"key": "A.b", "value": "x"}]}}}}}`,
		`{"http_server": {"port": 0}, "engine": {"type": ""}}`,
	} {
		if err := s.Validate(instance(t, "json", text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func ExampleWriteJSONSchema() {
	var text bytes.Buffer
	_ = WriteJSONSchema(&text)
	var doc struct {
		Properties map[string]struct {
			Ref         string `json:"$ref"`
			Description string
		}
	}
	_ = json.Unmarshal(text.Bytes(), &doc)
	fmt.Println(doc.Properties["health"].Ref, doc.Properties["health"].Description)
	// Output: #/$defs/Health Health endpoints.
}
