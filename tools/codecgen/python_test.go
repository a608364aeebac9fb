package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const pythonSchema = `syntax = "proto3";
package gen;
service Shop {
  // Put something. It is kept for as long as nobody takes it out of the shop again, which may be a very long time indeed.
  rpc PutIt(PutRequest) returns (PutResponse);
  // Take nothing.
  rpc Take(TakeRequest) returns (TakeResponse);
  // Run many.
  rpc Batch(BatchRequest) returns (BatchResponse);
}
message Error { uint32 code = 1; string message = 2; }
// PutRequest puts.
message PutRequest {
  Flag flag = 6; // Whether.
  bytes data = 2; // @raw The payload.
  string name = 1; // @required The \ name.
  map<string, string> tags = 4;
  repeated Item items = 5;
  bytes secret = 8; // @nojson
}
message Flag { bool value = 1; }
// Item is in both.
message Item { int64 n = 1; Item inner = 2; }
// @nocode
message PutResponse { Error error = 1; PutResult result = 2; }
message PutResult {
  map<string, Item> items = 1; // @always
  bytes info = 2; // @raw
  double load = 3;
  Flag flag = 4;
}
message TakeRequest {}
// @nocode
message TakeResponse { Error error = 1; TakeResult result = 2; }
message TakeResult {}
message BatchRequest { repeated Command commands = 1; }
// @union=Request
message Command { PutRequest put_it = 1; }
message BatchResponse { repeated Item replies = 1; }
`

// pythonProgram uses what is generated of pythonSchema.
const pythonProgram = `
import inspect, sys
sys.path.insert(0, sys.argv[1])
from gen import messages as m
from gen.request import UNSET

class Shop(m.Methods):
    def call(self, request):
        self.sent = request._method, request._write()
        return request._result({"items": {"a": {"n": 5, "inner": {}}}, "load": 0.5, "flag": {}})

shop = Shop()
result = shop.put_it("x", None, flag=False, items=(m.Item(1, m.Item()),), tags={"k": "v"})
assert shop.sent == ("put_it", {"name": "x", "data": None, "flag": {"value": False}, "tags": {"k": "v"}, "items": [{"n": 1, "inner": {}}]}), shop.sent
assert result == m.PutResult(items={"a": m.Item(5, m.Item())}, info=None, load=0.5, flag=False), result
shop.put_it("x")
assert shop.sent == ("put_it", {"name": "x"}), shop.sent
assert shop.take() is None and shop.sent == ("take", {})
assert not hasattr(shop, "batch") and not hasattr(m, "Command")
assert list(inspect.signature(shop.put_it).parameters) == ["name", "data", "flag", "tags", "items"]
assert "name: The \\ name." in inspect.getdoc(shop.put_it), inspect.getdoc(shop.put_it)
assert max(len(line) for line in inspect.getsource(m).splitlines() if "o.get(" not in line) <= 100
assert m.PutResult().flag is None and UNSET is m.PutRequest("x").data
`

// TestPython: what is generated writes requests and reads results.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	schema := filepath.Join(folder, "shop.proto")
	if err := os.WriteFile(schema, []byte(pythonSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := Generate(t.Context(), schema, Options{JSON: true, Service: true, Python: true})
	if err != nil {
		t.Fatal(err)
	}
	request, err := os.ReadFile("../../clients/python/src/gyro_api/request.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "gen"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"gen/messages.py": files["messages.py"], "gen/request.py": request, "gen/__init__.py": nil, "use.py": []byte(pythonProgram)} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), python, filepath.Join(folder, "use.py"), folder).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, files["messages.py"])
	}
}
