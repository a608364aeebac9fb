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
`)
	files, err := Generate(t.Context(), schema, Options{JSON: true, Reference: write("page.md.tmpl", "# Page\n\n{{reference}}\nEnd.\n")})
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Page\n\n" +
		"### Put\n\nPut puts.\nIt is kept.\n\n| Field | Number | Type | |\n|---|---|---|---|\n" +
		"| `name` | 1 | string | The name, a\\|b. Always in JSON. |\n" +
		"| `data` | 2 | payload |  |\n" +
		"| `items` | 4 | map of strings to [Item](#item) |  |\n" +
		"| `words` | 5 | list of string | At most 3. |\n" +
		"| `secret` | 6 | bytes | Internal. Not in JSON. |\n" +
		"\n### Item\n\nItem is empty.\nEnd.\n"
	if got := string(files["page.md"]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := Generate(t.Context(), schema, Options{JSON: true, Reference: write("without.md.tmpl", "# Page\n")}); err == nil {
		t.Error("a template without a place for the messages is accepted")
	}
}
