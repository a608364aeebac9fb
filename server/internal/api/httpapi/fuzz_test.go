package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// FuzzEndpoints sends anything anywhere: the status is one of those that the
// specification allows, and an answer of status 200 is JSON, one per line on the
// legacy endpoint.
func FuzzEndpoints(f *testing.F) {
	for i := range len(api.Methods()) + 1 {
		f.Add(uint8(i), []byte(`{"channel":"full:a","channels":["a","full:b"],"data":{"x":1},"b64data":"MQ==","tags":{"a":"b"},`+
			`"since":{"offset":1},"commands":[{"publish":{"channel":"a","data":1}},null],"parallel":true,"method":"publish","params":{},`+
			`"disconnect":{"code":1},"override":{"presence":{"value":true}},"pattern":"[a-z]*","key":"k","version":1}`))
	}
	f.Add(uint8(255), []byte("{\"id\":1,\"method\":\"info\"}\n{\"method\":40}"))
	h := insecure(f, &apitest.Node{
		Result:      position,
		PresenceMap: map[string]*gyro.ClientInfo{"c\xff": {User: "\x00", ConnInfo: []byte(" { } ")}},
		Stream:      gyro.History{Publications: []*gyro.Publication{{Offset: 1, Data: []byte("[ 1,\n2 ]")}}},
		Subscribers: map[string]int{"a": 1},
		Cluster:     []gyro.NodeInfo{{}},
	})
	f.Fuzz(func(t *testing.T, endpoint uint8, body []byte) {
		path := "/api"
		if methods := api.Methods(); int(endpoint) < len(methods) {
			path += "/" + methods[endpoint].String()
		}
		w := post(h, path, string(body))
		switch w.Code {
		case 200:
			for line := range strings.SplitSeq(w.Body.String(), "\n") {
				if !json.Valid([]byte(line)) {
					t.Fatalf("%s %q: %q is not JSON", path, body, line)
				}
			}
			if path != "/api" && strings.Contains(w.Body.String(), "\n") {
				t.Fatalf("several lines: %q", w.Body)
			}
		case 400:
			// Everything that encoding/json takes as an object of the right types is
			// taken; here only the other direction can be told.
			if path == "/api/info" && json.Valid(body) && strings.HasPrefix(string(body), "{") && strings.ToValidUTF8(string(body), "") == string(body) {
				t.Fatalf("%q was refused", body)
			}
		default:
			t.Fatalf("%s %q: status %d", path, body, w.Code)
		}
	})
}
