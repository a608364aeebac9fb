package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

const (
	notFound   = `"error":{"code":104,"message":"not found"}`
	badRequest = `"error":{"code":107,"message":"bad request"}`
)

func TestLegacy(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
		want       string
		calls      []string
	}{
		{"two commands", `{"id": 1, "method": "publish", "params": {"channel": "a", "data": {}}}` + "\n" + `{"id": 2, "method": "info", "params": {}}`,
			200, `{"id":1,"result":{"offset":1,"epoch":"aXbQ"}}` + "\n" + `{"id":2,"result":{"nodes":[]}}`, []string{"publish a {}", "info"}},
		{"concatenated", `{"method":"info"}{"method":"info"}` + "\r\n\t ", 200, "{\"result\":{\"nodes\":[]}}\n{\"result\":{\"nodes\":[]}}", []string{"info", "info"}},
		{"any case", `{"METHOD":"HiStOrY_rEmOvE","Params":{"channel":"full:a"}}`, 200, `{"result":{}}`, []string{"history_remove full:a"}},
		{"number", `{"method":9}`, 200, `{"result":{"nodes":[]}}`, []string{"info"}},
		{"default is publish", `{"params":{"channel":"a","data":1}}`, 200, `{"result":{"offset":1,"epoch":"aXbQ"}}`, []string{"publish a 1"}},
		{"null method is publish", `{"method":null,"params":{"channel":"a","data":1}}`, 200, `{"result":{"offset":1,"epoch":"aXbQ"}}`, []string{"publish a 1"}},
		{"null command", `null`, 200, `{` + badRequest + `}`, nil},
		{"id 0", `{"id":0,"method":"info"}`, 200, `{"result":{"nodes":[]}}`, []string{"info"}},
		{"largest id", `{"id":4294967295,"method":13}`, 200, `{"id":4294967295,` + notFound + `}`, nil},
		{"unassigned number", `{"method":13}`, 200, `{` + notFound + `}`, nil},
		{"number out of table", `{"method":40}`, 200, `{` + notFound + `}`, nil},
		{"negative number", `{"method":-1}`, 200, `{` + notFound + `}`, nil},
		{"other edition by name", `{"method":"Block_User","params":{}}`, 200, `{` + notFound + `}`, nil},
		{"other edition by number", `{"method":18}`, 200, `{` + notFound + `}`, nil},
		{"params missing", `{"method":"channels"}`, 200, `{` + badRequest + `}`, nil},
		{"params null", `{"method":"channels","params":null}`, 200, `{"result":{"channels":{}}}`, []string{"channels"}},
		{"params of wrong type", `{"method":"publish","params":{"channel":1}}`, 200, `{` + badRequest + `}`, nil},
		{"params no object", `{"method":"publish","params":[]}`, 200, `{` + badRequest + `}`, nil},
		{"info ignores params", `{"method":"info","params":[1]}`, 200, `{"result":{"nodes":[]}}`, []string{"info"}},
		{"command error", `{"id":3,"method":"publish","params":{"channel":"no:a"}}{"method":"info"}`, 200,
			`{"id":3,"error":{"code":102,"message":"unknown channel"}}` + "\n" + `{"result":{"nodes":[]}}`, []string{"info"}},
		{"later method wins", `{"method":"nonsense","method":"info"}`, 200, `{"result":{"nodes":[]}}`, []string{"info"}},

		{"empty body", ``, 400, "Bad Request: …", nil},
		{"space", " \n", 400, "Bad Request: …", nil},
		{"array", `[{"method":"info"}]`, 400, "Bad Request: …", nil},
		{"batch", `{"method":"batch","params":{}}`, 400, "Bad Request: …", nil},
		{"unknown name", `{"method":"nonsense"}`, 400, "Bad Request: …", nil},
		{"empty name", `{"method":""}`, 400, "Bad Request: …", nil},
		{"number as string", `{"method":"9"}`, 400, "Bad Request: …", nil},
		{"fraction", `{"method":9.0}`, 400, "Bad Request: …", nil},
		{"negative id", `{"id":-1,"method":"info"}`, 400, "Bad Request: …", nil},
		{"id too large", `{"id":4294967296,"method":"info"}`, 400, "Bad Request: …", nil},
		{"malformed later", `{"method":"publish","params":{"channel":"a","data":1}}{"method":`, 400, "Bad Request: …", []string{"publish a 1"}},
		{"unknown name later", `{"method":"info"}{"method":"x"}{"method":"channels","params":{}}`, 400, "Bad Request: …", []string{"info"}},
		{"invalid UTF-8", "{\"params\":\"\xff\"}", 400, "Bad Request: …", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := &apitest.Node{Result: position}
			h := insecure(t, node)
			expect(t, post(h, "/api", tt.body), tt.status, tt.want)
			calls := node.Calls()
			if diff := cmp.Diff(tt.calls, calls); diff != "" {
				t.Error(diff)
			}
			expect(t, post(h.Legacy(), "/admin/api", tt.body), tt.status, tt.want)
		})
	}
}

// TestLegacyNumbers pins every number to its method by what the node gets.
func TestLegacyNumbers(t *testing.T) {
	want := map[int]string{
		0: "publish full:a ", 1: "publish full:a,full:b ", 2: "unsubscribe ", 3: "disconnect ", 4: "presence ",
		5: "presence_stats ", 6: "history ", 7: "history_remove ", 8: "channels ", 9: "info ", 14: "connections ", 11: "subscribe ", 12: "refresh ",
	}
	for n := -1; n <= 41; n++ {
		node := &apitest.Node{}
		body := fmt.Sprintf(`{"method":%d,"params":{"channel":"full:a","channels":["full:a","full:b"],"data":1,"method":"deny"}}`, n)
		w := post(insecure(t, node), "/api", body)
		calls := node.Calls()
		switch {
		case want[n] != "":
			if len(calls) != 1 || !strings.HasPrefix(calls[0]+" ", want[n]) {
				t.Errorf("%d: %v, want %s", n, calls, want[n])
			}
		case n == 10:
			expect(t, w, 200, `{"error":{"code":403,"message":"no"}}`)
		case n >= 15 && n <= 17: // the server of the test keeps no status
			expect(t, w, 200, `{"error":{"code":108,"message":"not available"}}`)
		case n >= 33 && n <= 39:
			expect(t, w, 200, `{`+badRequest+`}`)
		default:
			expect(t, w, 200, `{`+notFound+`}`)
		}
	}
	for n, request := range map[int]string{
		33: `{"channel":"map:a","key":"k"}`, 34: `{"channel":"map:a","key":"k"}`, 35: `{"channel":"map:a"}`,
		36: `{"channel":"map:a"}`, 37: `{"channel":"map:a"}`, 38: `{"channel":"map:a"}`, 39: `{"channel":"poll:a","key":"k","version":1}`,
	} {
		w := post(insecure(t, &apitest.Node{}), "/api", fmt.Sprintf(`{"method":%d,"params":%s}`, n, request))
		expect(t, w, 200, `{"error":{"code":108,"message":"not available"}}`)
	}
}

// TestLegacyOneLinePerReply: clients read line by line, whatever a payload holds.
func TestLegacyOneLinePerReply(t *testing.T) {
	h := insecure(t, &apitest.Node{Stream: gyro.History{Publications: []*gyro.Publication{{Data: []byte("{\n\"a\": \"\\n\"\r\n}")}}}})
	expect(t, post(h, "/api", `{"method":"history","params":{"channel":"full:a","limit":1}}`), 200,
		`{"result":{"publications":[{"data":{"a": "\n"}}],"epoch":"","offset":0}}`)
}

func TestLegacyShutdown(t *testing.T) {
	h := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: byKey("k"), ShuttingDown: func() bool { return true }})
	expect(t, send(h, http.MethodGet, "/api", ""), 405, "")
	expect(t, post(h, "/api", ""), 401, "Unauthorized: …")
	expect(t, post(h, "/api", "", "X-API-Key", "k"), 503, "")
	expect(t, post(h, "/api/info", "{}", "X-API-Key", "k"), 200, `{"result":{"nodes":[]}}`)
	expect(t, post(h.Legacy(), "/admin/api", `{"method":"info"}`), 503, "")
	expect(t, send(h.Legacy(), http.MethodGet, "/admin/api", ""), 405, "")
}

// TestLegacyBounds: a request has at most 65,536 commands, else none is executed; and its
// replies have a bound too.
func TestLegacyBounds(t *testing.T) {
	const most = 65536
	command := `{"method":"channels","params":{}}`
	for n, want := range map[int]int{most: 200, most + 1: 413} {
		node := &apitest.Node{}
		w := post(insecure(t, node), "/api", strings.Repeat(command+"\n", n))
		if calls := len(node.Calls()); w.Code != want || want == 200 && calls != n || want != 200 && calls != 0 {
			t.Errorf("%d commands: status %d, %d executed", n, w.Code, calls)
		}
	}
	// Malformed ones count.
	if w := post(insecure(t, &apitest.Node{}), "/api", strings.Repeat("[]", most+1)); w.Code != 413 {
		t.Errorf("status %d", w.Code)
	}
	node := &apitest.Node{Stream: gyro.History{Publications: []*gyro.Publication{{Data: []byte(`"` + strings.Repeat("a", 8<<20) + `"`)}}}}
	w := post(insecure(t, node), "/api", strings.Repeat(`{"method":"history","params":{"channel":"full:a","limit":1}}`, 20))
	if calls := len(node.Calls()); w.Code != 413 || calls > 9 {
		t.Errorf("status %d after %d long replies", w.Code, calls)
	}
}
