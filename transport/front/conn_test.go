package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// TestNoIdleTimeout: the deadline of a head ends with the head. Without IdleTimeout and ReadTimeout, a
// connection waits for as long as the client wants, for a body and for the next request.
func TestNoIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fronttest.NewPipes()
		server := &http.Server{ReadHeaderTimeout: time.Second}
		l := front.Listen(p, server, nil, front.Route{
			Method: http.MethodPost, Path: "/x", ContentType: "a/b",
			Answer: func(_ context.Context, _ *front.Request, _ any, body, out []byte) (int, []byte) {
				return http.StatusOK, append(out, body...)
			},
		})
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		c := p.Dial()
		r := bufio.NewReader(c)
		for range 2 {
			go func() {
				_, _ = io.WriteString(c, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo")
				time.Sleep(time.Hour)
				_, _ = io.WriteString(c, "dy")
			}()
			if text, _, err := fronttest.Answer(r); err != nil || text != `200 OK map[Content-Length:[4] Content-Type:[a/b] Date:[now]] 4 false "body"` {
				t.Errorf("%s, %v", text, err)
			}
			time.Sleep(time.Hour)
		}
		c.Close()
		_ = server.Close()
		<-served
	})
}

// TestCheckOnce: Check is called once for a request, however its bytes arrive, and Answer gets the value.
func TestCheckOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, checks := fronttest.NewPipes(), 0
		server := &http.Server{}
		l := front.Listen(p, server, nil, front.Route{
			Method: http.MethodPost, Path: "/x", ContentType: "a/b",
			Check: func(*front.Request) (any, bool) {
				checks++
				return checks, true
			},
			Answer: func(_ context.Context, _ *front.Request, checked any, _, out []byte) (int, []byte) {
				return http.StatusOK, fmt.Append(out, checked)
			},
		})
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		c := p.Dial()
		r := bufio.NewReader(c)
		const head = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
		for i, parts := range [][]string{{head, "b", "o", "dy"}, {head + "body"}, {head[:20], head[20:] + "bo", "dy"}} {
			go func() {
				for _, part := range parts {
					_, _ = io.WriteString(c, part)
					time.Sleep(time.Second)
				}
			}()
			want := fmt.Sprintf(`200 OK map[Content-Length:[1] Content-Type:[a/b] Date:[now]] 1 false "%d"`, i+1)
			if text, _, err := fronttest.Answer(r); err != nil || text != want {
				t.Errorf("%s, %v, want %s", text, err, want)
			}
			time.Sleep(time.Minute)
		}
		c.Close()
		_ = server.Close()
		<-served
	})
}

// note is a gate that lets everything pass.
type note struct{ status int }

func (*note) Enter(*front.Request) *front.Refusal  { return nil }
func (n *note) Leave(_ *front.Request, status int) { n.status = status }

// TestStatusOfWrapped: the gate gets the status of the answer, not of what came before it.
func TestStatusOfWrapped(t *testing.T) {
	for _, statuses := range [][]int{{200}, {103, 200}, {100, 103, 204}, {404}, {101}} {
		want := statuses[len(statuses)-1]
		var n note
		s := httptest.NewServer(front.Wrap(&n, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, status := range statuses {
				if status != http.StatusOK { // 200 is the default
					w.WriteHeader(status)
				}
			}
		})))
		resp, err := http.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if s.Close(); n.status != want {
			t.Errorf("%d: Leave got %d", want, n.status)
		}
	}
}
