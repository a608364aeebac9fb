package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFresh checks that the committed files are what the schemas generate.
func TestFresh(t *testing.T) {
	for _, g := range []struct {
		dir, schema string
		options     Options
		files       int
	}{
		{"../../protocol", "client.proto", Options{Package: "protocol", JSON: true, Service: true}, 4},
		{"../../internal/cluster/control", "control.proto", Options{Package: "control", Service: true}, 2},
		{"../../server/internal/api", "api.proto", Options{Package: "api", JSON: true, Service: true, Elements: 1 << 20}, 4},
		{"../../server/internal/proxy/message", "proxy.proto", Options{Package: "message", JSON: true, Elements: 1 << 16}, 3},
		{"../../server/internal/web/swagger", "../../api/api.proto", Options{JSON: true, Service: true, OpenAPI: "../../server/internal/web/swagger/openapi.yaml"}, 1},
		{"../../docs", "../protocol/client.proto", Options{JSON: true, Service: true, Reference: "../../protocol/client-protocol.md.tmpl"}, 1},
		{"../../docs", "../server/internal/api/api.proto", Options{JSON: true, Service: true, Reference: "../../server/internal/api/api-reference.md.tmpl"}, 1},
		{"../../server/internal/api/grpcapi", "../api.proto", Options{JSON: true, Service: true, Descriptor: "api.binpb"}, 1},
		{"../../clients/python/src/gyro_api", "../../../../server/internal/api/api.proto", Options{JSON: true, Service: true, Python: true}, 1},
	} {
		files, err := Generate(t.Context(), filepath.Join(g.dir, g.schema), g.options)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != g.files {
			t.Fatalf("%s: %d files", g.dir, len(files))
		}
		for name, want := range files {
			got, err := os.ReadFile(filepath.Join(g.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s in %s is stale: run make generate", name, g.dir)
			}
		}
	}
}

func TestRefusesWhatItCannotGenerate(t *testing.T) {
	for body, want := range map[string]string{
		"message M { bytes b = 1; }":                                                     "gen.M.b: bytes are either @raw or @nojson",
		"message M { string s = 1; // @raw\n }":                                          "gen.M.s: @raw is for bytes",
		"message M { bytes b = 1; // @nojson @checked\n }":                               "gen.M.b: @checked is for @raw without @always",
		"message M { bytes b = 1; // @nojson @secret\n }":                                "gen.M.b: @secret is for strings without @rare",
		"message M { string s = 1; // @encoded\n }":                                      "gen.M.s: @encoded is for lists of messages",
		"message M { string s = 1; // @rwa\n }":                                          "gen.M.s: unknown annotation @rwa",
		"message M { string s = 1; // @most=2\n }":                                       "gen.M.s: @most is for lists",
		"message M { repeated M m = 1; // @most\n }":                                     "gen.M.m: @most: a number is expected",
		"message M { M m = 1; // @always\n }":                                            "gen.M.m: @always is for scalars, lists and maps",
		"message M { repeated int32 n = 1; }":                                            "gen.M.n: only strings and messages can be repeated",
		"message M { map<int32, M> m = 1; }":                                             "gen.M.m: map keys other than strings are not supported",
		"message M { fixed64 f = 1; }":                                                   "gen.M.f: kind fixed64 is not supported",
		"message M { int32 n = 1; // @many\n }":                                          "gen.M.n: @many is for strings, bytes, messages, and lists without @most",
		"message M { string s = 1; // @rare=O @many\n }":                                 "gen.M.s: @rare does not go with @many or @most",
		"message M { bool a = 1; // @rare=O\n }\nmessage N { bool b = 1; // @rare=O\n }": "N: the fields with @rare are not those of M",
		"// @uniom=I\nmessage M {}":                                                      "gen.M: unknown annotation @uniom=I",
		"// @union=I\nmessage M { string s = 1; }":                                       "gen.M.s: the members of a union are messages",
		"// @union=I\nmessage U {}\nmessage M { U u = 1; }":                              "M.u: a union has to be in a list",
		"message M {}\nservice S { rpc A(M) returns (stream M); }":                       "gen.S.A: streams are not supported",
		"message M {}\nservice S { rpc A(M) returns (M); }\nservice T { }":               "gen.T: there is a service already",
		"message M { enum E { A = 0; } E e = 1; }":                                       "gen.M.e: kind enum is not supported",
		"message M { optional string s = 1; }":                                           "gen.M.s: presence of scalars and oneof",
		"message M { oneof o { string s = 1; } }":                                        "gen.M.s: presence of scalars and oneof",
	} {
		path := filepath.Join(t.TempDir(), "m.proto")
		if err := os.WriteFile(path, []byte("syntax = \"proto3\";\npackage gen;\n"+body+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Generate(t.Context(), path, Options{Package: "gen", JSON: true, Service: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestGoName(t *testing.T) {
	for name, want := range map[string]string{
		"id": "ID", "ttl": "TTL", "tf": "Tf", "rpc": "RPC", "sub_refresh": "SubRefresh", "data_b64": "DataB64",
	} {
		if got := goName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
