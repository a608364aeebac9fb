package explained

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
)

const answer = `{"findings":[{"level":"problem","text":"it is off","key":"channel.namespaces[chat].allow_subscribe_for_client","client":"c1"}],
"connections":{"c1":{"app_name":"js\u001b[2J","app_version":"5","transport":"websocket","protocol":"json","user":"42",
"state":{"channels":{"news":{"source":6,"offset":3,"epoch":"e"},"own":{"source":9,"server_side":true}}},"connected_at_ms":1000,"ping_pong_latency_ms":7,"node":"n1","addr":"10.0.0.1:1","queue":5,"commands":0}},
"events":[{"time_ms":1000,"kind":"refused","node":"n1","client":"c1","channel":"chat:1","what":"subscribe refused","code":103,"reason":"it is off","key":"k"}],
"subscribe":{"decision":"refused","reason":"it is off","key":"k","token":true,"checks":[{"text":"clients may subscribe","holds":false,"key":"k","value":"off"},{"text":"there is a namespace","holds":true}],"options":{"presence":"on"}},
"top":{"offset":5,"epoch":"e"},"more":true,"incomplete":"no answer of n2"}`

const want = `PROBLEM  it is off
         setting: channel.namespaces[chat].allow_subscribe_for_client
         client:  c1

connections: 1
  c1  websocket json js�[2J 5
    for 1m0s, latency 7 ms, 5 bytes waiting, 0 commands in progress, from 10.0.0.1:1, on node n1
    news (source 6, at offset 3 of epoch e)
    own (source 9, server-side)
  and more

subscribing is refused
  no   clients may subscribe  [k = off]
  yes  there is a namespace
  so:  it is off
  with a subscription token for the channel a client may subscribe
  presence: on
  top of the stream: offset 5 of epoch e

events: 1
  1970-01-01T00:00:01.000Z  refused       chat:1: subscribe refused: it is off (103) [k]  c1

not all nodes have answered: no answer of n2
`

// The text for an answer, which comes from a server that got the request and the key.
func TestAsk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/api/explain" || r.Header.Get("X-API-Key") != "secret" || string(body) != `{"channel":"chat:1","limit":9,"user":"42"}` {
			t.Errorf("%s %s", r.URL, body)
		}
		_, _ = io.WriteString(w, `{"result":`+answer+`}`)
	}))
	defer server.Close()
	caller := &apicall.Caller{URL: server.URL + "/api", Key: "secret", HTTP: server.Client()}
	res, text, err := Ask(t.Context(), caller, &api.ExplainRequest{User: "42", Channel: "chat:1", Limit: 9})
	if err != nil || string(text) != answer {
		t.Fatal(err, string(text))
	}
	var b strings.Builder
	if err := Write(&b, res, time.UnixMilli(61_000)); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, b.String(), want)
	}
}
