package connections

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// polledAnswer is what a UniPoll client gets.
type polledAnswer struct {
	Pushes     []*protocol.Push
	Subs       json.RawMessage
	Lost       []string
	Refused    []string
	Data       json.RawMessage
	Disconnect *protocol.Disconnect
	status     int
}

// ask sends a request without a network.
func ask(ctx context.Context, h http.Handler, method, request string) polledAnswer {
	r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(request))
	if method == http.MethodGet {
		r = httptest.NewRequestWithContext(ctx, method, "/?"+request, nil)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := polledAnswer{status: w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil && w.Body.Len() > 0 {
		panic(err)
	}
	return a
}

// data of the publications in the answer, with their channels.
func (a *polledAnswer) data() string {
	var list []string
	for _, p := range a.Pushes {
		switch {
		case p.Pub != nil:
			list = append(list, p.Channel+string(p.Pub.Data))
		case p.Unsubscribe != nil:
			list = append(list, p.Channel+" ends")
		case p.Disconnect != nil:
			list = append(list, fmt.Sprint(p.Disconnect.Code))
		default:
			list = append(list, fmt.Sprintf("%+v", p))
		}
	}
	return strings.Join(list, " ")
}

// TestUniPoll: an answer comes at once, with the first push, or after the timeout; the positions in it
// are those for the next request.
func TestUniPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.Granted("a")
		h.Connecting = func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			subs := map[string]gyro.SubscribeOptions{"a": {Recoverable: true}}
			for ch := range e.Subs {
				subs[ch] = gyro.SubscribeOptions{Recoverable: ch != "plain"}
			}
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}, Subscriptions: subs, Data: []byte(`{"x":1}`)}, nil
		}
		node := nodetest.Run(t, gyro.Config{Handlers: h})
		poll := httpstream.NewHandler(httpstream.UniPoll, node, httpstream.Config{})
		const gather = 5 * time.Millisecond // a request that has waited does so for what comes at the same time
		began := time.Now()
		next := func(subs string) chan polledAnswer {
			began = time.Now()
			answer := make(chan polledAnswer, 1)
			go func() { answer <- ask(t.Context(), poll, http.MethodPost, `{"subs":`+subs+`}`) }()
			synctest.Wait()
			return answer
		}
		check := func(what string, answer chan polledAnswer, after time.Duration, data string) (a polledAnswer) {
			t.Helper()
			a = <-answer
			if d := time.Since(began); d != after || a.data() != data || a.status != 200 || a.Pushes == nil {
				t.Errorf("%s: after %v %q, want after %v %q: %+v", what, d, a.data(), after, data, a)
			}
			synctest.Wait()
			if n := node.NumClients(); n != 0 {
				t.Errorf("%s: %d clients are left", what, n)
			}
			return a
		}
		some := func(n int, ch string) {
			for i := range n {
				nodetest.Publish(t, node, ch, fmt.Sprint(i), nodetest.Keep(5, time.Hour))
			}
		}
		a := check("the first request", next(`{"plain":{}}`), 0, "")
		if string(a.Data) != `{"x":1}` || !strings.Contains(string(a.Subs), `"plain":{}`) || len(a.Lost) > 0 {
			t.Errorf("%+v", a)
		}
		waiting := next(string(a.Subs))
		time.Sleep(7 * time.Second)
		some(3, "a")
		a = check("publications at once", waiting, 7*time.Second+gather, "a0 a1 a2")
		some(2, "a")
		a = check("missed publications", next(string(a.Subs)), 0, "a0 a1")
		a = check("nothing", next(string(a.Subs)), 25*time.Second, "")
		waiting = next(string(a.Subs))
		some(1, "plain")
		a = check("a plain channel", waiting, gather, "plain0")

		waiting = next(string(a.Subs))
		nodetest.Must(t, node.Users().Unsubscribe(t.Context(), gyro.Target{User: "u"}, "a", nil))
		if a = check("an unsubscribe", waiting, gather, "a ends"); string(a.Subs) != `{"plain":{}}` {
			t.Errorf("after an unsubscribe: %s", a.Subs)
		}
		a = check("again", next(string(a.Subs)), 0, "")
		waiting = next(string(a.Subs))
		nodetest.Must(t, node.Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil))
		check("a disconnect", waiting, 0, "3503")

		some(9, "a") // history keeps 5
		if b := check("too late", next(string(a.Subs)), 0, ""); !slices.Equal(b.Lost, []string{"a"}) || string(b.Subs) == string(a.Subs) {
			t.Errorf("too late: %+v", b)
		}

		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { ask(ctx, poll, http.MethodPost, `{"subs":{"plain":{}}}`); close(gone) }()
		leave()
		<-gone
		waiting = next(string(a.Subs))
		<-waiting
		waiting = make(chan polledAnswer, 1)
		go func() { waiting <- ask(t.Context(), poll, http.MethodGet, "") }()
		check("GET", waiting, 0, "")
	})
}

// TestUniPollShutdown: whoever waits when a node shuts down gets an answer with the positions.
func TestUniPollShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Granted("a")})
		poll := httpstream.NewHandler(httpstream.UniPoll, node, httpstream.Config{})
		first := ask(t.Context(), poll, http.MethodPost, `{}`)
		answer := make(chan polledAnswer, 1)
		go func() { answer <- ask(t.Context(), poll, http.MethodPost, `{"subs":`+string(first.Subs)+`}`) }()
		synctest.Wait()
		nodetest.Must(t, node.Shutdown(t.Context()))
		if a := <-answer; a.status != 200 || a.data() != "3001" || string(a.Subs) != string(first.Subs) {
			t.Errorf("%+v", a)
		}
		if a := ask(t.Context(), poll, http.MethodPost, `{}`); a.status != 503 || a.Disconnect == nil || a.Disconnect.Code != 3001 {
			t.Errorf("%+v", a)
		}
	})
}

// TestUniPollRefused: what is answered to a client that cannot connect, or asks in a wrong way.
func TestUniPollRefused(t *testing.T) {
	h := gyro.Handlers{Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		switch e.Token {
		case "":
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
		case "expired":
			return gyro.ConnectReply{}, protocol.ErrorTokenExpired
		case "invalid":
			return gyro.ConnectReply{}, protocol.DisconnectInvalidToken
		case "busy":
			return gyro.ConnectReply{}, protocol.ErrorTooManyRequests
		}
		return gyro.ConnectReply{}, errors.New("the database is down")
	}}
	node := nodetest.Run(t, gyro.Config{Handlers: h})
	poll := httpstream.NewHandler(httpstream.UniPoll, node, httpstream.Config{})
	for _, c := range []struct {
		method, request string
		status          int
		code            uint32
	}{
		{"POST", `{"token":"expired"}`, 401, 3005},
		{"POST", `{"token":"invalid"}`, 401, 3500},
		{"POST", `{"token":"busy"}`, 429, 3013},
		{"POST", `{"token":"x"}`, 503, 3004},
		{"POST", `{"subs":{"news":{}}}`, 403, 3507}, // the application does not subscribe it
		{"POST", ``, 400, 0},
		{"POST", `{`, 400, 0},
		{"GET", `cf_connect={`, 400, 0},
		{"POST", `{"data":"` + strings.Repeat("x", 65536) + `"}`, 413, 0},
		{"PUT", `{}`, 405, 0},
		{"OPTIONS", ``, 204, 0},
	} {
		a := ask(t.Context(), poll, c.method, c.request)
		if a.status != c.status || (a.Disconnect != nil) != (c.code > 0) || c.code > 0 && a.Disconnect.Code != c.code {
			t.Errorf("%s %.40s: %+v", c.method, c.request, a)
		}
		if strings.Contains(c.request, "news") != slices.Equal(a.Refused, []string{"news"}) {
			t.Errorf("%s: refused %v", c.request, a.Refused)
		}
	}
}

// asker sends a poll to one of two nodes; an answer without subs means that it was cut.
type asker func(ctx context.Context, node int, request string) polledAnswer

// pollThrough checks that a client gets everything once and in order, whichever node answers and however
// often a request is cut. settle waits for what is under way.
func pollThrough(t *testing.T, seed uint64, node *gyro.Node, ask asker, settle func()) {
	r := rand.New(rand.NewPCG(seed, 2))
	sent, seen := make(map[string]int), make(map[string][]string)
	subs := string(ask(t.Context(), 0, "{}").Subs)
	round := func(n int) {
		ctx, cut := context.WithCancel(t.Context())
		defer cut()
		answer := make(chan polledAnswer, 1)
		to := r.IntN(2)
		go func() { answer <- ask(ctx, to, `{"subs":`+subs+`}`) }()
		for range n {
			ch := []string{"a", "b", "c"}[r.IntN(3)]
			sent[ch]++
			nodetest.Publish(t, node, ch, fmt.Sprint(sent[ch]), nodetest.Keep(1000, time.Hour))
			if r.IntN(3) == 0 {
				settle()
			}
		}
		if r.IntN(3) == 0 {
			cut()
		}
		a := wait.Receive(t, "an answer", answer)
		if len(a.Subs) == 0 {
			return // cut
		}
		subs = string(a.Subs)
		for _, p := range a.Pushes {
			seen[p.Channel] = append(seen[p.Channel], string(p.Pub.Data))
		}
	}
	for range 40 {
		round(r.IntN(20))
	}
	for range 10 {
		round(0)
	}
	for ch, n := range sent {
		for i, data := range seen[ch] {
			if data != fmt.Sprint(i+1) {
				t.Fatalf("%s: %s at %d of %v", ch, data, i, seen[ch])
			}
		}
		if len(seen[ch]) != n {
			t.Fatalf("%s: %d of %d", ch, len(seen[ch]), n)
		}
	}
}

// TestUniPollLosesNothing: in virtual time.
func TestUniPollLosesNothing(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			here, there := pair(t, nodetest.Granted("a", "b", "c"))
			var polls []http.Handler
			for _, n := range []*gyro.Node{here, there} {
				polls = append(polls, httpstream.NewHandler(httpstream.UniPoll, n, httpstream.Config{}))
			}
			pollThrough(t, seed, here, func(ctx context.Context, node int, request string) polledAnswer {
				return ask(ctx, polls[node], "POST", request)
			}, synctest.Wait)
		})
	}
}

// TestUniPollLosesNothingOnLoops: over connections that are kept.
func TestUniPollLosesNothingOnLoops(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		here, there := onBus(t, nodetest.Granted("a", "b", "c"))
		var servers []*httptest.Server
		for _, n := range []*gyro.Node{here, there} {
			servers = append(servers, nodetest.StreamServer(t, n, httpstream.UniPoll, httpstream.Config{PollTimeout: 50 * time.Millisecond}, false))
		}
		pollThrough(t, seed, here, func(ctx context.Context, node int, request string) polledAnswer {
			return fetch(ctx, servers[node], request)
		}, runtime.Gosched)
	}
}

// fetch sends a poll over a network.
func fetch(ctx context.Context, s *httptest.Server, request string) (a polledAnswer) {
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(request))
	resp, err := s.Client().Do(r)
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || json.Unmarshal(text, &a) != nil {
		return polledAnswer{}
	}
	a.status = resp.StatusCode
	return a
}

// noted is a gate that tells of the requests that leave it.
type noted chan int

func (noted) Enter(*front.Request) *front.Refusal  { return nil }
func (n noted) Leave(_ *front.Request, status int) { n <- status }

// loopPolls serves long polls that wait on loops, with TLS or without.
type loopPolls struct {
	*testing.T
	node   *gyro.Node
	addr   string
	secure bool
	left   noted
}

func newLoopPolls(t *testing.T, secure bool) *loopPolls {
	s := &loopPolls{T: t, node: nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: nodetest.Granted("a")}), secure: secure, left: make(noted, 1000)}
	if nodeaccess.Of(s.node).NextLoop() == nil {
		t.Skip("loops watch no sockets here")
	}
	routes := httpstream.NewHandler(httpstream.UniPoll, s.node, httpstream.Config{PollTimeout: time.Hour}).Routes("/")
	for i := range routes {
		routes[i].Gate = s.left
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler()) // nothing gets to net/http
	s.addr = server.Listener.Addr().String()
	if secure {
		plain := httptest.NewTLSServer(nil) // for its certificate
		server.Config.TLSConfig = &tls.Config{Certificates: plain.TLS.Certificates}
		plain.Close()
		server.Listener = front.ListenTLS(server.Listener, server.Config, s.node, routes...)
	} else {
		server.Listener = front.Listen(server.Listener, server.Config, s.node, routes...)
	}
	server.Start()
	t.Cleanup(server.Close)
	return s
}

// poller is a client that polls on one connection.
type poller struct {
	*loopPolls
	net.Conn
	in *bufio.Reader
}

func (s *loopPolls) dial() *poller {
	s.Helper()
	nc, err := net.Dial("tcp", s.addr)
	nodetest.Must(s, err)
	if s.secure {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	}
	s.Cleanup(func() { nc.Close() })
	return &poller{s, nc, bufio.NewReader(nc)}
}

func (p *poller) post(body string) {
	p.Helper()
	_, err := fmt.Fprintf(p.Conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	nodetest.Must(p, err)
}

// next reads an answer with the data, and returns the positions for the next request.
func (p *poller) next(data string) (subs string) {
	p.Helper()
	resp, err := http.ReadResponse(p.in, nil)
	nodetest.Must(p, err)
	defer resp.Body.Close()
	var a polledAnswer
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &a) != nil || resp.StatusCode != http.StatusOK || resp.ContentLength != int64(len(text)) ||
		resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Accel-Buffering") != "no" || a.data() != data || resp.Close {
		p.Fatalf("%q %+v, want %q", text, resp, data)
	}
	return string(a.Subs)
}

// TestUniPollOnLoops: requests wait on loops, without a goroutine, with TLS and without, one after the
// other on one connection. Clients that go while they wait are forgotten.
func TestUniPollOnLoops(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS=%v", secure), func(t *testing.T) { testUniPollOnLoops(newLoopPolls(t, secure)) })
	}
}

func testUniPollOnLoops(s *loopPolls) {
	const n = 100
	var clients []*poller
	subs := ""
	for range n {
		c := s.dial()
		c.post(`{}`)
		subs = c.next("")
		clients = append(clients, c)
	}
	waiting := func(n int) {
		s.Helper()
		wait.Until(s, fmt.Sprintf("%d clients", n), func() bool { return s.node.NumClients() == n })
	}
	goroutines := runtime.NumGoroutine()
	for _, c := range clients {
		c.post(`{"subs":` + subs + `}`)
	}
	waiting(n)
	if more := runtime.NumGoroutine() - goroutines; more > 20 {
		s.Errorf("%d goroutines more for %d polls", more, n)
	}
	nodetest.Publish(s.T, s.node, "a", "1", nodetest.Keep(10, time.Hour))
	for _, c := range clients {
		subs = c.next("a1")
	}
	waiting(0)
	for _, c := range clients {
		c.post(`{"subs":` + subs + `}`)
	}
	waiting(n)
	for _, c := range clients[1:] {
		c.Close()
	}
	waiting(1)
	nodetest.Must(s, s.node.Users().Disconnect(s.Context(), gyro.Target{User: "u"}, nil))
	clients[0].next("3503")
	count := make(map[int]int)
	for range 3 * n {
		count[wait.Receive(s, "the end of a request", s.left)]++
	}
	if count[200] != 2*n+1 || count[499] != n-1 {
		s.Errorf("left the gate: %v", count)
	}
}

// TestUniPollOverHTTP: a poll is answered whatever the timeouts of the server for other requests.
func TestUniPollOverHTTP(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Granted("a")})
			poll := httpstream.NewHandler(httpstream.UniPoll, node, httpstream.Config{PollTimeout: time.Minute})
			client := inMemory(t, &http.Server{Handler: poll, ReadTimeout: time.Second, WriteTimeout: time.Second}, h2)
			body := "{}"
			for range 2 {
				resp, err := client.Post("http://memory", "", strings.NewReader(body))
				nodetest.Must(t, err)
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				var a polledAnswer
				if err != nil || json.Unmarshal(text, &a) != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
					t.Fatalf("HTTP/2 %v: %d %q, %v", h2, resp.StatusCode, text, err)
				}
				body = `{"subs":` + string(a.Subs) + `}`
			}
		})
	}
}

// TestUniPollAbandoned: a client that goes away while it waits is forgotten.
func TestUniPollAbandoned(t *testing.T) {
	h, events := nodetest.Granted("a"), make(chan string, 10)
	h.Connected = func(context.Context, *gyro.Client) { events <- "connected" }
	h.Disconnected = func(context.Context, *gyro.Client, gyro.DisconnectEvent) { events <- "disconnected" }
	await := func(want string) {
		t.Helper()
		if got := wait.Receive(t, "the client is "+want, events); got != want {
			t.Fatalf("the client is %s, want %s", got, want)
		}
	}
	node := nodetest.Run(t, gyro.Config{Handlers: h})
	s := httptest.NewServer(httpstream.NewHandler(httpstream.UniPoll, node, httpstream.Config{PollTimeout: time.Hour}))
	defer s.Close()
	first := ask(t.Context(), s.Config.Handler, "POST", "{}")
	await("connected")
	await("disconnected")
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	nodetest.Must(t, err)
	body := `{"subs":` + string(first.Subs) + `}`
	fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	await("connected")
	nc.Close()
	await("disconnected")
	if n := node.NumClients(); n != 0 {
		t.Errorf("%d clients are left", n)
	}
}
