package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const openAPISchema = `syntax = "proto3";
package gen;
service S {
  // Put something. It is kept.
  // For ever.
  rpc PutIt(PutRequest) returns (PutResponse);
  // Get all.
  rpc All(AllRequest) returns (AllResponse);
}
message Error { uint32 code = 1; string message = 2; }
// PutRequest puts.
message PutRequest {
  string name = 1; // @required The name.
  bytes data = 2; // @raw
  string b64data = 3;
  map<string, string> tags = 4;
  sint64 at = 5;
  bytes secret = 6; // @nojson
}
// @nocode
message PutResponse { Error error = 1; PutResult result = 2; }
message PutResult { uint64 offset = 1; // @always Where.
}
message AllRequest {}
message AllResponse { repeated Item items = 1; }
// @union=Thing
message Item { PutRequest put = 1; AllRequest all = 2; }
`

const openAPIFrame = `
prefix: /v1
document:
  openapi: 3.1.0
  paths: {/v1: {summary: by hand}}
  components: {schemas: {Own: {}}, parameters: {ErrorMode: {}}}
statuses:
  - {status: 400, name: Bad, text: true, errors: true, description: bad}
  - {status: 401, name: Who, text: true, description: who}
  - {status: 404, name: Lost, description: lost}
errors:
  - {code: 7, message: lost, status: 404}
methods:
  put_it:
    tag: T
    errors: [7]
    examples:
      - {name: a, summary: A, request: {name: x, data: {z: 1, a: [<b>, null]}}, result: {offset: 1}}
      - {name: b, summary: B, request: {name: w}, error: 7}
  all:
    tag: T
    examples: [{name: c, summary: C, result: {items: []}}]
`

// document generates the OpenAPI document of a schema and a frame.
func document(t *testing.T, schema, frame string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"s.proto": schema, "frame.yaml": frame} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Generate(t.Context(), filepath.Join(dir, "s.proto"), Options{JSON: true, Service: true, OpenAPI: filepath.Join(dir, "frame.yaml")})
	return string(files["openapi.json"]), err
}

func TestOpenAPI(t *testing.T) {
	got, err := document(t, openAPISchema, openAPIFrame)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) || !json.Valid(want) {
		t.Errorf("got\n%s", got)
	}
}

func TestOpenAPIRefuses(t *testing.T) {
	for _, tt := range []struct{ in, before, after, want string }{
		{"schema", "// Get all.", "", "the schema has no comment on All"},
		{"frame", "put_it:", "put:", "methods: put_it is missing"},
		{"frame", "  all:", "  none: {}\n  all:", "methods: the schema has no none"},
		{"frame", "tag: T", "tog: T", "tog"},
		{"frame", "tag: T", "tag: ''", "methods.put_it: tag and examples are required"},
		{"frame", "summary: C", "summary: ''", "methods.all: an example has a name"},
		{"frame", "summary: C", "summary: C, error: 7", "methods.all: an example has a name"},
		{"frame", "error: 7", "error: 8", "example b: 8 is not among the errors"},
		{"frame", "errors: [7]", "errors: [7, 8]", "methods.put_it: 8 is not among the errors"},
		{"frame", "summary: B", "summary: B, result: {a: 1}", "methods.put_it: an example has a name"},
	} {
		schema, frame := openAPISchema, openAPIFrame
		changed := &frame
		if tt.in == "schema" {
			changed = &schema
		}
		*changed = strings.Replace(*changed, tt.before, tt.after, 1)
		if _, err := document(t, schema, frame); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s instead of %s: %v, want %s", tt.after, tt.before, err, tt.want)
		}
	}
}
