package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestFindPositions: the same keys are found in all formats, at the place where a person
// would look for them.
func TestFindPositions(t *testing.T) {
	for format, tt := range map[string]struct{ text, want string }{
		"json": {"{\n  \"Client\": {\"token\":\t{\"x\": 1}},\n  \"http_api.key\": \"a\\\"}\",\n  \"list\": [{\"name\": \"a\"},\n    {\"name\": \"b\", \"n\": [1, 2]}]\n}\n",
			"client 2:3, client.token 2:14, client.token.x 2:24, http_api.key 3:3, list 4:3, list.[0] 4:12, list.[0].name 4:13, " +
				"list.[1] 5:5, list.[1].n 5:19, list.[1].n.[0] 5:25, list.[1].n.[1] 5:28, list.[1].name 5:6"},
		"yaml": {"Client:\n  token:\n    x: 1\nhttp_api.key: a\nlist:\n- name: a\n- &l\n  name: b\n  n: [1, 2]\n",
			"client 1:1, client.token 2:3, client.token.x 3:5, http_api.key 4:1, list 5:1, list.[0] 6:7, list.[0].name 6:3, " +
				"list.[1] 7:3, list.[1].n 9:3, list.[1].n.[0] 9:7, list.[1].n.[1] 9:10, list.[1].name 8:3"},
		"toml": {"[Client]\ntoken = {x = 1}\n[http_api]\nkey = \"a\"\n[[list]]\nname = \"a\"\n[[list]]\nname = \"b\"\nn = [1, 2]\n[list.deep]\nm.o = 1\n",
			"client 1:2, client.token 2:1, client.token.x 2:10, http_api 3:2, http_api.key 4:1, list 5:3, list.[0] 5:3, list.[0].name 6:1, " +
				"list.[1] 7:3, list.[1].deep 10:7, list.[1].deep.m 11:1, list.[1].deep.m.o 11:3, list.[1].n 9:1, list.[1].n.[0] 9:1, list.[1].n.[1] 9:1, list.[1].name 8:1"},
	} {
		at, err := FindPositions(format, []byte(tt.text))
		if err != nil {
			t.Fatal(format, err)
		}
		var got []string
		for _, key := range slices.Sorted(maps.Keys(at)) {
			got = append(got, fmt.Sprintf("%s %d:%d", key, at[key].Line, at[key].Column))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", format, text, tt.want)
		}
	}
}

func TestFindPositionOfMessage(t *testing.T) {
	at, err := FindPositions("yaml", []byte("channel:\n  namespaces:\n  - name: chat\n"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"channel.namespaces[0](chat).name":     "{3 5} channel.namespaces.[0].name",
		"channel.namespaces[0](chat).presence": "{3 9} channel.namespaces.[0]",
		"channel.namespaces[7].presence":       "{2 3} channel.namespaces",
		"channel.max_length":                   "{1 1} channel",
		"client.x":                             "{0 0} ",
	} {
		pos, found := at.Find(FilePath(key))
		if got := fmt.Sprint(pos, " ", found); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

// FuzzPositions: whatever a file parses as, all of its keys have a place inside of it.
func FuzzPositions(f *testing.F) {
	f.Add(byte(0), `{"a":{"b":[{"c":1}]},"d.e":2}`)
	f.Add(byte(0), `{"a":1e999}`)
	f.Add(byte(1), "a:\n  b: &x\n  - c: 1\n  ? d\n  : e\n")
	f.Add(byte(2), "a.b = [{c = 1}]\n[[x]]\ny.z = 1\n[x.q]\n")
	f.Fuzz(func(t *testing.T, n byte, text string) {
		format := []string{"json", "yaml", "toml"}[n%3]
		if len(text) > 4096 {
			return
		}
		if _, err := ParseFile(format, []byte(text)); err != nil {
			return
		}
		at, err := FindPositions(format, []byte(text))
		if err != nil {
			t.Fatalf("%s parses, and has no positions: %v", format, err)
		}
		lines := 1 + strings.Count(text, "\n") + strings.Count(text, "\r")
		for key, p := range at {
			if p.Line < 1 || p.Line > lines || p.Column < 1 {
				t.Errorf("%q is at %v of %d lines", key, p, lines)
			}
		}
	})
}
