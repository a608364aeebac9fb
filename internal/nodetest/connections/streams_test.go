package connections

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// stream sends a connect request, or commands, over a new connection: the server closes that of a
// stream which has ended.
func stream(tb testing.TB, s *httptest.Server, request string) (status int, body io.Reader) {
	tb.Helper()
	s.Client().CloseIdleConnections()
	resp, err := s.Client().Post(s.URL, "", strings.NewReader(request))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		resp.Body.Close()
		s.Client().CloseIdleConnections()
	})
	return resp.StatusCode, resp.Body
}

// byToken lets clients connect, unless their token says otherwise.
func byToken(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	switch e.Token {
	case "expired":
		return gyro.ConnectReply{}, protocol.ErrorTokenExpired
	case "broken":
		return gyro.ConnectReply{}, errors.New("the database is down")
	case "banned":
		return gyro.ConnectReply{}, protocol.Disconnect{Code: 4500, Reason: "banned"}
	case "unknown":
		return gyro.ConnectReply{}, nil
	}
	return gyro.ConnectReply{
		Credentials:   &gyro.Credentials{UserID: e.Token},
		Subscriptions: map[string]gyro.SubscribeOptions{"news": {}},
	}, nil
}

// TestStreamOfNode: one-way streams of a node, from the connect push to the disconnect push.
func TestStreamOfNode(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, k := range []httpstream.Kind{httpstream.UniHTTPStream, httpstream.UniSSE} {
			for _, cfg := range []httpstream.Config{{}, {ConnectAnswers: map[uint32]httpstream.ConnectAnswer{}}} {
				node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: byToken}})
				s := nodetest.StreamServer(t, node, k, cfg, h2)
				_, body := stream(t, s, `{"token":"ann"}`)
				r := bufio.NewReader(body)
				text := func() string {
					for {
						line, err := r.ReadString('\n')
						if err != nil {
							t.Fatalf("%v over HTTP/2 %v, %+v: %q, %v", k, h2, cfg, line, err)
						}
						if line = strings.TrimSpace(strings.TrimPrefix(line, "data: ")); line != "" {
							return line
						}
					}
				}
				if first := text(); !strings.HasPrefix(first, `{"connect":{"client":"`) || !strings.Contains(first, `"session":"`) {
					t.Errorf("first message: %q", first)
				}
				if _, err := node.Publish(t.Context(), "news", []byte("{\"a\":\n\r1}"), nil); err != nil {
					t.Fatal(err)
				}
				if got := text(); got != `{"channel":"news","pub":{"data":{"a":1}}}` {
					t.Errorf("got %q", got)
				}
				nodetest.Must(t, node.Users().Disconnect(t.Context(), gyro.Target{User: "ann"}, nil))
				if got := text(); got != `{"disconnect":{"code":3503,"reason":"force disconnect"}}` {
					t.Errorf("got %q", got)
				}
				if rest, err := io.ReadAll(r); err != nil || strings.TrimSpace(string(rest)) != "" {
					t.Errorf("got %q, %v", rest, err)
				}
			}
		}
	}
}

// TestConnectFails: what a client learns that cannot connect.
func TestConnectFails(t *testing.T) {
	answers := map[uint32]httpstream.ConnectAnswer{109: {Status: 401}, 4500: {Status: 403, Body: "go away"}, 3501: {Status: 400}}
	for token, want := range map[string]struct {
		push   string
		status int
		body   string
	}{
		"expired": {`{"disconnect":{"code":3005,"reason":"connection expired"}}`, 401, "token expired"},
		"broken":  {`{"disconnect":{"code":3004,"reason":"internal server error"}}`, 500, "Internal Server Error"},
		"banned":  {`{"disconnect":{"code":4500,"reason":"banned"}}`, 403, "go away"},
		"unknown": {`{"disconnect":{"code":3501,"reason":"bad request"}}`, 400, "bad request"},
	} {
		for _, h2 := range []bool{false, true} {
			node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: byToken}})
			request := fmt.Sprintf(`{"token":%q}`, token)
			status, r := stream(t, nodetest.StreamServer(t, node, httpstream.UniHTTPStream, httpstream.Config{}, h2), request)
			if body, err := io.ReadAll(r); status != http.StatusOK || string(body) != want.push+"\n" || err != nil {
				t.Errorf("%s: status %d, %q, %v", token, status, body, err)
			}
			status, r = stream(t, nodetest.StreamServer(t, node, httpstream.UniHTTPStream, httpstream.Config{ConnectAnswers: answers}, h2), request)
			if body, err := io.ReadAll(r); status != want.status || string(body) != want.body || err != nil {
				t.Errorf("%s: status %d, %q, %v, want %d, %q", token, status, body, err, want.status, want.body)
			}
		}
	}
}

// TestConnectSlow: the time to connect is not that of a write.
func TestConnectSlow(t *testing.T) {
	t.Parallel()
	slow := func(writeTimeout time.Duration) (httpstream.Config, gyro.Config) {
		connecting := func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			time.Sleep(6 * writeTimeout)
			return byToken(ctx, e)
		}
		return httpstream.Config{WriteTimeout: writeTimeout, ConnectAnswers: map[uint32]httpstream.ConnectAnswer{}},
			gyro.Config{Handlers: gyro.Handlers{Connecting: connecting}}
	}
	check := func(t *testing.T, client *http.Client, url string) {
		resp, err := client.Post(url, "", strings.NewReader(`{"token":"u"}`))
		nodetest.Must(t, err)
		defer resp.Body.Close()
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); resp.StatusCode != http.StatusOK || !strings.HasPrefix(line, `{"connect":`) {
			t.Errorf("status %d, %q, %v", resp.StatusCode, line, err)
		}
	}
	t.Run("loops", func(t *testing.T) {
		stream, node := slow(50 * time.Millisecond) // what a loop writes is in the kernel at once
		stream.ConnectAnswers = nil                 // which net/http serves
		s := nodetest.StreamServer(t, nodetest.Run(t, node), httpstream.UniHTTPStream, stream, false)
		check(t, s.Client(), s.URL)
	})
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", h2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream, node := slow(time.Second)
				h := httpstream.NewHandler(httpstream.UniHTTPStream, nodetest.Run(t, node), stream)
				check(t, inMemory(t, &http.Server{Handler: h}, h2), "http://memory")
			})
		})
	}
}

// TestBidirectionalFails: the error stands in the stream, which goes on until the client leaves, and
// malformed commands end it.
func TestBidirectionalFails(t *testing.T) {
	t.Parallel()
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: byToken}})
	s := nodetest.StreamServer(t, node, httpstream.HTTPStream, httpstream.Config{StaleTimeout: 30 * time.Millisecond}, false)
	for body, want := range map[string]string{
		`{"id":1,"connect":{"token":"expired"}}` + "\n" + `{"id":2,"rpc":{}}`: `{"id":1,"error":{"code":109,"message":"token expired"}}` +
			"\n" + `{"push":{"disconnect":{"code":3502,"reason":"stale"}}}` + "\n",
		"":                  `{"push":{"disconnect":{"code":3501,"reason":"bad request"}}}` + "\n",
		"{":                 `{"push":{"disconnect":{"code":3501,"reason":"bad request"}}}` + "\n",
		`{"id":1,"rpc":{}}`: `{"push":{"disconnect":{"code":3501,"reason":"bad request"}}}` + "\n",
	} {
		status, r := stream(t, s, body)
		if got, err := io.ReadAll(r); status != http.StatusOK || string(got) != want || err != nil {
			t.Errorf("%q: status %d, %q, %v", body, status, got, err)
		}
	}
}

// TestConnectAbandoned: a client that leaves while it connects leaves nothing behind.
func TestConnectAbandoned(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		close(entered)
		<-leave
		return byToken(ctx, e)
	}}})
	s := nodetest.StreamServer(t, node, httpstream.UniHTTPStream, httpstream.Config{ConnectAnswers: map[uint32]httpstream.ConnectAnswer{}}, false)
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(`{}`))
	go func() {
		<-entered
		cancel()
	}()
	if resp, err := s.Client().Do(r); err == nil {
		resp.Body.Close()
		t.Error("there was an answer")
	}
	s.Close() // waits for the handler
	close(leave)
}
