package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

func emulationOf(target Target, streams, messages int) Emulation {
	host := strings.TrimPrefix(target.URL, "ws://")
	host, _, _ = strings.Cut(host, "/")
	target.URL = "http://" + host + "/connection/http_stream"
	return Emulation{Target: target, Streams: streams, Messages: messages}
}

func TestEmulation(t *testing.T) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		rep, err := emulationOf(startServer(t, e), 4, 50).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r := rep.Emulation; !rep.OK || r.Requests != 200 || r.Replies != 200 || r.Lost != 0 || r.Latency.Count != 200 || r.Server == nil {
			t.Errorf("%+v", rep)
		}
		var text strings.Builder
		if err := rep.WriteText(&text); err != nil || !strings.Contains(text.String(), "200 requests") || !strings.Contains(text.String(), "us per request") {
			t.Errorf("%v %s", err, &text)
		}
	}
}

// A server that loses or confuses replies, or refuses requests, does not pass.
func TestEmulationFaults(t *testing.T) {
	for name, test := range map[string]struct {
		replies []string // to the connect command and those after it
		status  int      // of emulation requests
		want    string
	}{
		"lost reply":  {[]string{`{"id":1,"connect":{"session":"s","node":"n"}}`, `{"id":3}`}, 204, "1 replies lost"},
		"twice":       {[]string{`{"id":1,"connect":{"session":"s"}}`, `{"id":3}`, `{"id":3}`}, 204, "reply to command 3 instead of 4"},
		"error":       {[]string{`{"id":1,"connect":{"session":"s"}}`, `{}`, `{"id":3,"error":{"code":100,"message":"m"}}`}, 204, "100: m"},
		"disconnect":  {[]string{`{"id":1,"connect":{"session":"s"}}`, `{"push":{"disconnect":{"code":3501,"reason":"bad"}}}`}, 204, "bad"},
		"refused":     {[]string{`{"id":1,"connect":{"session":"s"}}`}, 404, "HTTP status 404"},
		"no session":  {[]string{`{"id":1,"connect":{}}`}, 204, "has no session"},
		"not allowed": {[]string{`{"id":1,"error":{"code":109,"message":"token expired"}}`}, 204, "109: token expired"},
		"garbage":     {[]string{`garbage`}, 204, "client 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/emulation" {
					w.WriteHeader(test.status)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				for _, reply := range test.replies {
					fmt.Fprintln(w, reply)
				}
				w.(http.Flusher).Flush()
				<-ended
			}))
			defer server.Close()
			defer close(ended)
			target := testTarget("ws"+strings.TrimPrefix(server.URL, "http"), protocol.JSON)
			if strings.HasSuffix(test.want, "lost") {
				target.Drain = time.Second
			}
			_, err := emulationOf(target, 1, 2).Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
