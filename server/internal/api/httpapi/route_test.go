package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// start serves h on ln during a test, with or without its routes.
func start(t testing.TB, h *httpapi.Handler, ln net.Listener, direct bool) *fronttest.Site {
	s := open(h, ln, direct)
	t.Cleanup(s.Close)
	return s
}

func open(h *httpapi.Handler, ln net.Listener, direct bool) *fronttest.Site {
	if direct {
		return fronttest.Serve(ln, h, h.Routes()...)
	}
	return fronttest.Serve(ln, h)
}

func request(path, body string, fields ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: a.example:8000\r\n" + strings.Join(append(fields, ""), "\r\n") +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

const (
	publishPath  = "/api/publish"
	publishBody  = `{"channel":"a","data":{"x":1}}`
	keyField     = "X-API-Key: secret"
	aBroadcast   = `{"channels":["full:a","no:b"],"data":{"x":1}}`
	notPublished = `{"channel":"no:a","data":1}`
)

var goodPublish = request(publishPath, publishBody, keyField)

// ambiguous, instead of a number, means that a server with routes refuses what a proxy may read in another way.
const ambiguous = -1

// refused is the answer to such a request.
const refused = `400 Bad Request map[Content-Type:[text/plain; charset=utf-8]] -1 true "400 Bad Request"`

// exchanges are what clients send, and how many of the requests net/http serves.
var exchanges = map[string]struct {
	parts  []string
	served int64
}{
	"publish":             {[]string{goodPublish}, 0},
	"broadcast":           {[]string{request("/api/broadcast", aBroadcast, "authorization: APIKey secret", "User-Agent: x/1")}, 0},
	"map":                 {[]string{request("/api/map_publish", `{"channel":"map:a","key":"k","data":1}`, keyField)}, 0},
	"removal":             {[]string{request("/api/map_remove", `{"channel":"map:a","key":"k"}`, keyField)}, 0},
	"keyed":               {[]string{request("/api/shared_poll_publish", `{"channel":"poll:a","key":"k","version":1}`, keyField)}, 0},
	"malformed map":       {[]string{request("/api/map_publish", `{"channel":"map:a","key":1}`, keyField), goodPublish}, 2},
	"API error":           {[]string{request(publishPath, notPublished, keyField, "Content-Type: application/json", "Accept: */*")}, 0},
	"many":                {[]string{goodPublish, goodPublish, goodPublish}, 0},
	"pipelined":           {[]string{strings.Repeat(goodPublish, 300)}, 0},
	"by the byte":         {strings.Split(goodPublish+goodPublish, ""), 0},
	"case of names":       {[]string{"POST /api/publish HTTP/1.1\r\nhOST:b\r\ncontent-LENGTH:\t2 \r\nx-api-KEY: secret\r\nconnection: Keep-Alive\r\n\r\n{}"}, 0},
	"large answer":        {[]string{request("/api/broadcast", `{"channels":["`+strings.Repeat(`a","`, 5000)+`"],"data":1}`, keyField)}, 0},
	"other method after":  {[]string{goodPublish, request("/api/info", `{}`, keyField), goodPublish}, 2},
	"pipelined mixture":   {[]string{goodPublish + request("/api/info", `{}`, keyField) + goodPublish}, 2},
	"large body":          {[]string{goodPublish, request(publishPath, `{"channel":"a","data":"`+strings.Repeat("x", 100_000)+`"}`, keyField)}, 1},
	"malformed":           {[]string{goodPublish, request(publishPath, `{"channel":}`, keyField), goodPublish}, 2},
	"wrong type":          {[]string{request(publishPath, `{"channel":1}`, keyField)}, 1},
	"wrong key":           {[]string{goodPublish, request(publishPath, publishBody, "X-API-Key: Secret")}, 1},
	"wrong key, no other": {[]string{request(publishPath, publishBody, "X-API-Key: x", "Authorization: apikey secret")}, 1},
	"no key":              {[]string{request(publishPath, publishBody)}, 1},
	"key in query":        {[]string{request(publishPath+"?api_key=secret", publishBody)}, 1},
	"two keys":            {[]string{request(publishPath, publishBody, keyField, "X-Api-Key: x")}, 0},
	"transport errors":    {[]string{request(publishPath, notPublished, keyField, "X-Centrifugo-Error-Mode: transport")}, 1},
	"own transport":       {[]string{request(publishPath, notPublished, keyField, "X-Gyro-Error-Mode: transport")}, 1},
	"GET":                 {[]string{"GET /api/publish HTTP/1.1\r\nHost: a\r\n\r\n"}, 1},
	"unknown path":        {[]string{request("/api/nothing", `{}`, keyField)}, 1},
	"escaped path":        {[]string{request("/api/%70ublish", publishBody, keyField)}, 1},
	"legacy":              {[]string{request("/api", `{"method":"publish","params":`+publishBody+`}`, keyField)}, 1},
	"close":               {[]string{request(publishPath, publishBody, keyField, "Connection: close") + goodPublish}, 1},
	"chunked": {[]string{"POST /api/publish HTTP/1.1\r\nHost: a\r\nX-API-Key: secret\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		goodPublish}, 2},
	"chunked and length": {[]string{"POST /api/publish HTTP/1.1\r\nHost: a\r\nX-API-Key: secret\r\nContent-Length: 2\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"}, ambiguous},
	"expect":             {[]string{request(publishPath, publishBody, keyField, "Expect: 100-continue")}, 1},
	"HTTP/1.0":           {[]string{strings.Replace(goodPublish, "1.1", "1.0", 1)}, 1},
	"no host":            {[]string{"POST /api/publish HTTP/1.1\r\nContent-Length: 2\r\nX-API-Key: secret\r\n\r\n{}"}, 0},
	"two hosts":          {[]string{request(publishPath, publishBody, keyField, "Host: b")}, 0},
	"two lengths":        {[]string{request(publishPath, publishBody, keyField, "Content-Length: 2")}, 0},
	"same length twice":  {[]string{request(publishPath, publishBody, keyField, "Content-Length: 30")}, ambiguous},
	"negative length":    {[]string{"POST /api/publish HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\nX-API-Key: secret\r\n\r\n{}"}, 0},
	"signed length":      {[]string{"POST /api/publish HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\nX-API-Key: secret\r\n\r\n{}"}, 0},
	"no length":          {[]string{"POST /api/publish HTTP/1.1\r\nHost: a\r\nX-API-Key: secret\r\n\r\n"}, 1},
	"space before colon": {[]string{"POST /api/publish HTTP/1.1\r\nHost: a\r\nContent-Length : 2\r\nX-API-Key: secret\r\n\r\n{}"}, 0},
	"folded":             {[]string{request(publishPath, publishBody, keyField, "X-A: b", " c")}, ambiguous},
	"line feeds":         {[]string{strings.ReplaceAll(goodPublish, "\r\n", "\n")}, ambiguous},
	"control character":  {[]string{request(publishPath, publishBody, keyField, "X-A: \x01")}, 0},
	"carriage return":    {[]string{request(publishPath, publishBody, keyField, "X-A: b\rc")}, 0},
	"high bytes":         {[]string{request(publishPath, publishBody, keyField, "X-A: \xc3\xa9")}, 0},
	"great head":         {[]string{request(publishPath, publishBody, keyField, "X-A: "+strings.Repeat("x", 20_000))}, 0},
	"greatest head":      {[]string{request(publishPath, publishBody, keyField, "X-A: "+strings.Repeat("x", http.DefaultMaxHeaderBytes))}, 0},
	"other mode":         {[]string{request(publishPath, notPublished, keyField, "X-Gyro-Error-Mode: none")}, 0},
	"loose close":        {[]string{request(publishPath, publishBody, keyField, "Connection: x close") + goodPublish}, 1},
	"other connection":   {[]string{request(publishPath, publishBody, keyField, "Connection: keep-alive, TE", "TE: trailers"), goodPublish}, 0},
	"upgrade":            {[]string{request(publishPath, publishBody, keyField, "Connection: Upgrade", "Upgrade: websocket"), goodPublish}, 2},
	"half a head":        {[]string{goodPublish, "POST /api/publish HTTP/1.1\r\nHost:"}, 0},
	"crumbs":             {[]string{goodPublish, "POS"}, 0},
	"crumbs alone":       {[]string{"POS"}, 0},
	"half a body":        {[]string{goodPublish, goodPublish[:len(goodPublish)-5]}, 1},
	"nothing":            {nil, 0},
	"garbage":            {[]string{"\x00\x01\x02\r\n\r\n"}, 0},
	"HTTP/2":             {[]string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, 1},
}

// A server with routes answers every exchange as one without.
func TestRoutesAnswerLikeServer(t *testing.T) {
	for name, e := range exchanges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [2][]string
			var calls [2][]string
			for i, direct := range []bool{false, true} {
				node := &apitest.Node{Result: position}
				s := start(t, newHandler(t, node, httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), fronttest.Listen(t), direct)
				var err error
				if got[i], err = s.Exchange(e.parts...); err != nil {
					t.Fatal(direct, err)
				}
				calls[i] = node.Calls()
				if n := s.Served.Load(); direct && n != max(e.served, 0) {
					t.Errorf("%d requests passed net/http, want %d", n, e.served)
				}
			}
			if e.served == ambiguous {
				if !slices.Equal(got[1], []string{refused}) || len(calls[1]) > 0 {
					t.Errorf("answers %q, calls %q", got[1], calls[1])
				}
				return
			}
			if diff := cmp.Diff(got[0], got[1]); diff != "" {
				t.Errorf("answers without routes (-) and with (+):\n%s", diff)
			}
			if diff := cmp.Diff(calls[0], calls[1]); diff != "" {
				t.Errorf("calls without routes (-) and with (+):\n%s", diff)
			}
		})
	}
}

// In transport mode the status depends on the error: net/http answers all.
func TestRoutesTransportMode(t *testing.T) {
	h := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: byKey("secret"), ErrorMode: "transport"})
	s := start(t, h, fronttest.Listen(t), true)
	got, err := s.Exchange(request(publishPath, notPublished, keyField))
	if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "404") || s.Served.Load() != 1 {
		t.Errorf("%v, %v, %d served", got, err, s.Served.Load())
	}
}

// A request has the rights that its sender had when its head arrived, also if the key is taken away while the body comes.
func TestRoutesKeyTakenAway(t *testing.T) {
	const key = "a-secret-of-billing"
	guard := func(c rights.Config) *rights.Guard {
		c.Section = "http_api"
		g, err := rights.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	before := guard(rights.Config{Keys: []config.APIKey{{Name: "billing", Key: key, Methods: []string{"*"}, Channels: []string{"bill"}}}})
	after := guard(rights.Config{Key: "secret"})
	inForce, node, calls := before, new(apitest.Node), 0
	h := newHandler(t, node, httpapi.Config{Prefix: "/api", Guard: func() *rights.Guard { return inForce }})
	for _, r := range h.Routes() {
		request := httptest.NewRequest(http.MethodPost, r.Path, http.NoBody)
		request.Header.Set("X-Api-Key", key)
		q := front.FromHTTP(request)
		inForce = before
		exec, ok := r.Check(q)
		if !ok {
			t.Errorf("%s: the key is not known", r.Path)
			continue
		}
		inForce = after
		if status, out := r.Answer(t.Context(), q, exec, []byte(`{"channel":"a","channels":["a"],"data":1}`), nil); status != 200 || len(node.Calls()) > calls {
			t.Errorf("%s: %d %s, calls %q", r.Path, status, out, node.Calls())
		}
		if _, ok := r.Check(q); ok {
			t.Errorf("%s: the key is known after it was taken away", r.Path)
		}
		if r.Path != publishPath {
			continue
		}
		calls++
		if status, out := r.Answer(t.Context(), q, exec, []byte(`{"channel":"bill","data":1}`), nil); status != 200 || len(node.Calls()) != calls {
			t.Errorf("%s: %d %s, calls %q", r.Path, status, out, node.Calls())
		}
	}
}

// FuzzRoutes sends anything to a server with and one without routes.
func FuzzRoutes(f *testing.F) {
	for _, e := range exchanges {
		f.Add([]byte(strings.Join(e.parts, "")))
	}
	var sites [2]*fronttest.Site
	var nodes [2]*apitest.Node
	renew := func(t testing.TB) {
		for i, direct := range []bool{false, true} {
			if sites[i] != nil {
				sites[i].Close()
			}
			nodes[i] = &apitest.Node{Result: position}
			sites[i] = open(newHandler(t, nodes[i], httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), fronttest.Listen(t), direct)
		}
	}
	renew(f)
	f.Cleanup(func() { sites[0].Close(); sites[1].Close() })
	f.Fuzz(func(t *testing.T, sent []byte) {
		var got [2][]string
		for i, s := range sites {
			var err error
			if got[i], err = s.Exchange(string(sent)); err != nil {
				// A reset overtook the answer: what the server has done is not known.
				renew(t)
				t.Skip()
			}
		}
		calls, routed := nodes[0].Calls(), nodes[1].Calls()
		if n := len(got[1]); n > 0 && got[1][n-1] == refused { // what net/http alone does from here on may differ
			got[0] = append(got[0][:min(n-1, len(got[0]))], refused)
			calls = calls[:min(len(routed), len(calls))]
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Errorf("answers without routes (-) and with (+):\n%s", diff)
		}
		if !slices.Equal(calls, routed) {
			t.Errorf("calls without routes (-) and with (+):\n%s", cmp.Diff(calls, routed))
		}
	})
}

// lifetime is how long the server keeps a connection after the client sent this, and what it
// says at the end.
func lifetime(t *testing.T, p *fronttest.Pipes, sent string, answers int) (time.Duration, string) {
	c := p.Dial()
	go func() { _, _ = io.WriteString(c, sent) }()
	r := bufio.NewReader(c)
	for range answers {
		if _, _, err := fronttest.Answer(r); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	last, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("after %q: %v", sent, err)
	}
	return time.Since(begin), string(last)
}

func TestRoutesTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fronttest.NewPipes()
		s := start(t, newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), p, true)
		for _, test := range []struct {
			sent    string
			answers int
			want    time.Duration
			last    string // what the last answer begins with
		}{
			{"", 0, 10 * time.Second, ""},
			{goodPublish[:20], 0, 10 * time.Second, ""},
			{goodPublish[:len(goodPublish)-1], 0, 30 * time.Second, "HTTP/1.1 500 "},
			{goodPublish, 1, 30 * time.Second, ""},
			{goodPublish + goodPublish[:20], 1, 10 * time.Second, ""},
			{goodPublish + goodPublish[:len(goodPublish)-1], 1, 30 * time.Second, "HTTP/1.1 500 "},
		} {
			got, last := lifetime(t, p, test.sent, test.answers)
			if got < test.want || got > test.want+time.Second || !strings.HasPrefix(last, test.last) || (last == "") != (test.last == "") {
				t.Errorf("%d answers, then silence: closed after %v with %q, want %v and %q", test.answers, got, last, test.want, test.last)
			}
		}
		shutdown(t, s)
	})
}

// Nobody waits for the body of a request with a wrong key.
func TestKeyBeforeBody(t *testing.T) {
	const head = "POST /api/publish HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n"
	for name, sent := range map[string]string{
		"wrong key": head + "X-API-Key: x\r\n\r\n", "no key": head + "\r\n", "some of the body": head + "\r\n{\"channel\":",
		"another method": strings.Replace(head, "publish", "info", 1) + "\r\n{",
		"without length": strings.Replace(head, "Content-Length: 65536", "Transfer-Encoding: chunked", 1) + "\r\n1\r\n{\r\n",
	} {
		for _, direct := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := fronttest.NewPipes()
				s := start(t, newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), p, direct)
				c := p.Dial()
				begin := time.Now()
				go func() { _, _ = io.WriteString(c, sent) }()
				answer, err := io.ReadAll(c)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
					t.Errorf("%s: %q, %v", name, answer, err)
				}
				if took := time.Since(begin); took > time.Second {
					t.Errorf("%s, direct %v: the connection lived for %v", name, direct, took)
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func shutdown(t *testing.T, s *fronttest.Site) {
	t.Helper()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Front.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// A shutdown closes idle connections, and lets requests under way have their
// answers.
func TestRoutesShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var blocked atomic.Bool
		node := &apitest.Node{Hook: func() {
			if blocked.Load() {
				<-release
			}
		}}
		p := fronttest.NewPipes()
		s := start(t, newHandler(t, node, httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), p, true)
		fresh, idle, busy := p.Dial(), p.Dial(), p.Dial()
		idleReader, busyReader := bufio.NewReader(idle), bufio.NewReader(busy)
		ask := func(c net.Conn) { go func() { _, _ = io.WriteString(c, goodPublish) }() }
		ask(idle)
		if _, _, err := fronttest.Answer(idleReader); err != nil {
			t.Fatal(err)
		}
		blocked.Store(true)
		ask(busy)
		synctest.Wait()

		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for name, r := range map[string]io.Reader{"fresh": fresh, "idle": idleReader} {
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%s connection: %v", name, err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- s.Front.Wait(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		close(release)
		text, last, err := fronttest.Answer(busyReader)
		if err != nil || !last {
			t.Fatalf("last answer: %s, %v", text, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Front.Wait(short); err != nil {
			t.Errorf("a second wait: %v", err)
		}
	})
}

// A shutdown whose context ends cuts what is under way.
func TestRoutesShutdownInHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := fronttest.NewPipes()
		s := start(t, newHandler(t, &apitest.Node{Hook: func() { <-release }}, httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), p, true)
		c := p.Dial()
		go func() { _, _ = io.WriteString(c, goodPublish) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Front.Close()
		if err := s.Front.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		close(release)
		if err := s.Front.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A panic ends one connection.
func TestRoutesPanic(t *testing.T) {
	var calls atomic.Int64
	node := &apitest.Node{Hook: func() {
		if calls.Add(1) == 1 {
			panic("boom")
		}
	}}
	s := start(t, newHandler(t, node, httpapi.Config{Prefix: "/api", Guard: byKey("secret")}), fronttest.Listen(t), true)
	if got, err := s.Exchange(goodPublish, goodPublish); len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := s.Exchange(goodPublish, goodPublish); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
