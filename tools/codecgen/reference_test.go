package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReference(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	schema := write("x.proto", `syntax = "proto3";
package gen;
// Put puts.
// It is kept.
message Put {
  string name = 1; // @always The name, a|b.
  bytes data = 2; // @raw
  map<string, Item> items = 4;
  repeated string words = 5; // @most=3
  bytes secret = 6; // @nojson Internal.
}
// Item is empty.
message Item {}
// Outcome has an error or a result.
message Outcome {
  string error = 1; // @required What failed.
  Item result = 2;
}
service Shop {
  // Put puts one|two
  // items.
  rpc PutAll(Put) returns (Outcome);
}
`)
	files, err := Generate(t.Context(), schema, Options{JSON: true, Service: true, Reference: write("page.md.tmpl", "# Page\n\n{{methods}}\n\n{{reference}}\nEnd.\n")})
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Page\n\n" +
		"| Method | gRPC | Request | Result | |\n|---|---|---|---|---|\n" +
		"| `put_all` | `PutAll` | [Put](#put) | [Item](#item) | Put puts one\\|two items. |\n\n" +
		"### Put\n\nPut puts.\nIt is kept.\n\n| Field | Number | Type | |\n|---|---|---|---|\n" +
		"| `name` | 1 | string | The name, a\\|b. Always in JSON. |\n" +
		"| `data` | 2 | payload |  |\n" +
		"| `items` | 4 | map of strings to [Item](#item) |  |\n" +
		"| `words` | 5 | list of string | At most 3. |\n" +
		"| `secret` | 6 | bytes | Internal. Not in JSON. |\n" +
		"\n### Item\n\nItem is empty.\n" +
		"\n### Outcome\n\nOutcome has an error or a result.\n\n| Field | Number | Type | |\n|---|---|---|---|\n" +
		"| `error` | 1 | string | Required. What failed. |\n" +
		"| `result` | 2 | [Item](#item) |  |\nEnd.\n"
	if got := string(files["page.md"]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := Generate(t.Context(), schema, Options{JSON: true, Reference: write("without.md.tmpl", "# Page\n")}); err == nil {
		t.Error("a template without a place for the messages is accepted")
	}
}
