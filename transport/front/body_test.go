package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

const statusNoBody = 499

// upload is a site with an endpoint that needs the whole body of each request. Its gate tells the
// status of every request.
type upload struct {
	left   chan int
	served chan string // the bodies that net/http got, and the errors behind them
}

func (upload) Enter(*front.Request) *front.Refusal  { return nil }
func (u upload) Leave(_ *front.Request, status int) { u.left <- status }

func (u upload) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	u.served <- fmt.Sprintf("%s %v", body, err)
	if err != nil {
		w.Header().Set("Connection", "close")
		w.WriteHeader(statusNoBody)
	}
}

// serveUpload serves on ln, with or without the route.
func serveUpload(t *testing.T, ln net.Listener, routed bool) upload {
	u := upload{make(chan int, 10), make(chan string, 10)}
	s := &http.Server{Handler: front.Wrap(u, u), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Hour}
	if routed {
		ln = front.Listen(ln, s, nil, front.Route{
			Method: http.MethodPost, Path: "/x", Gate: u,
			Answer: func(_ context.Context, _ *front.Request, _ any, _, out []byte) (int, []byte) {
				return http.StatusOK, out
			},
		})
	}
	served := make(chan error)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return u
}

// halfUpload is a whole request, and one whose body ends early.
const halfUpload = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi" + "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf"

// TestBrokenBody: a request whose body does not come is answered by net/http and counted, whether
// there is a route or not.
func TestBrokenBody(t *testing.T) {
	for name, end := range map[string]func(nc *net.TCPConn){
		"end":   func(nc *net.TCPConn) { _ = nc.CloseWrite() },
		"reset": func(nc *net.TCPConn) { _ = nc.SetLinger(0); nc.Close() },
	} {
		for _, routed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, routed %v", name, routed), func(t *testing.T) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				u := serveUpload(t, ln, routed)
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				if _, err := io.WriteString(nc, halfUpload); err != nil {
					t.Fatal(err)
				}
				// Whoever cannot write the answer to the whole request does not look at the other one.
				answers := bufio.NewReader(nc)
				res, err := http.ReadResponse(answers, nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("%+v, %v", res, err)
				}
				res.Body.Close()
				if status := <-u.left; status != http.StatusOK {
					t.Errorf("the whole request leaves with %d", status)
				}
				end(nc.(*net.TCPConn))
				if status := <-u.left; status != statusNoBody {
					t.Errorf("half a request leaves with %d", status)
				}
				if name == "reset" {
					return
				}
				if answer, err := io.ReadAll(answers); err != nil || !strings.Contains(string(answer), "HTTP/1.1 499 ") {
					t.Errorf("%q, %v", answer, err)
				}
			})
		}
	}
}

// TestSlowBody: the same for a client that goes silent in the middle of a body. It may take as long
// as net/http lets it, or up to a second longer.
func TestSlowBody(t *testing.T) {
	for _, routed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ln := fronttest.NewPipes()
			u := serveUpload(t, ln, routed)
			client := ln.Dial()
			defer client.Close()
			go func() { _, _ = io.WriteString(client, halfUpload) }()
			began := time.Now()
			r := bufio.NewReader(client)
			for _, want := range []int{http.StatusOK, statusNoBody} {
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if left := <-u.left; res.StatusCode != want || left != want {
					t.Errorf("routed %v: answered %d, left with %d, want %d", routed, res.StatusCode, left, want)
				}
			}
			if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
				t.Errorf("routed %v: took %v", routed, took)
			}
			if _, err := r.ReadByte(); err == nil {
				t.Errorf("routed %v: the connection goes on", routed)
			}
		})
	}
}
