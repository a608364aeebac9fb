package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSnapshot: the request says what is selected, connections go to stdout as they are, and the end is told.
func TestSnapshot(t *testing.T) {
	const row = `{"client":"c1","user":"ann"}` + "\n"
	for _, tt := range []struct {
		name             string
		of               Snapshot
		status           int
		answer           string
		request          string
		out, said, fails string
	}{
		{"all", Snapshot{}, 200, row + "\n" + row + `{"summary":{"connections":2,"nodes":{"a":1,"b":1}}}` + "\n", `{}`, row + row, "2 connections of 2 nodes\n", ""},
		{"some", Snapshot{User: "ann", Channel: "news", Client: "c", Expression: "queue > 0", Labels: []string{"plan=free", "beta"}}, 200,
			`{"summary":{"connections":0,"nodes":{},"failed":"no such key"}}`,
			`{"channel":"news","client":"c","expression":"queue \u003e 0","label_filter":{"op":"and","nodes":[{"key":"plan","cmp":"eq","val":"free"},{"key":"beta","cmp":"ex"}]},"user":"ann"}`,
			"", "0 connections of 0 nodes\nconnections for which the expression fails are left out: no such key\n", ""},
		{"one label", Snapshot{Labels: []string{"a=b=c"}}, 200, `{"summary":{}}`, `{"label_filter":{"key":"a","cmp":"eq","val":"b=c"}}`, "", "0 connections of 0 nodes\n", ""},
		{"incomplete", Snapshot{}, 200, row + `{"summary":{"connections":1,"nodes":{"a":1},"incomplete":"node b"}}`, `{}`, row, "1 connections of 1 nodes\n", "not complete: node b"},
		{"cut off", Snapshot{}, 200, row, `{}`, row, "", "cut off"},
		{"refused", Snapshot{Expression: "x"}, 400, "Bad Request: expression \"x\": wrong\n", `{"expression":"x"}`, "", "", `Bad Request: expression "x": wrong`},
		{"no key", Snapshot{}, 401, "", `{}`, "", "", "--api-key"},
		{"no label", Snapshot{Labels: []string{"=x"}}, 200, "", "", "", "", `label: "=x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if asked = string(body); r.URL.Path != "/api/snapshot" {
					t.Errorf("path %s", r.URL.Path)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer server.Close()
			tt.of.API = server.URL
			var out, said bytes.Buffer
			err := tt.of.Run(t.Context(), &Output{Out: &out, Err: &said})
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if asked != tt.request || out.String() != tt.out || said.String() != tt.said {
				t.Errorf("asked %s\nwant  %s\nprinted %q, want %q\nsaid %q, want %q", asked, tt.request, out.String(), tt.out, said.String(), tt.said)
			}
		})
	}
}
