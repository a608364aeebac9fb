package front_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// TestAmbiguousRequests: a request whose end a proxy may see elsewhere gets 400, and nothing that follows
// gets an answer, whether a route or net/http had the connection before.
func TestAmbiguousRequests(t *testing.T) {
	const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			t.Error("net/http got a request behind an ambiguous one")
		}
		_, _ = io.Copy(w, r.Body)
	})
	s := fronttest.Serve(fronttest.Listen(t), echo, front.Route{
		Method: http.MethodPost, Path: "/api",
		Answer: func(_ context.Context, _ *front.Request, _ any, body, out []byte) (int, []byte) {
			return http.StatusOK, append(out, body...)
		},
	})
	t.Cleanup(s.Close)
	exchange := func(text string) []string { // which the server ends
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(wait.Limit))
		if _, err = io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		for list := []string(nil); ; {
			if _, err := r.Peek(1); err != nil {
				return list
			}
			text, _, err := fronttest.Answer(r)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, text)
		}
	}
	before := map[string]string{
		"first":             "",
		"behind a route":    "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
		"behind net/http":   "POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
		"behind chunks":     "POST /api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nhi\r\n0\r\n\r\n",
		"behind an upgrade": "POST /other HTTP/1.1\r\nHost: a\r\nUpgrade: test\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nhi",
	}
	for name, text := range map[string]string{
		"both lengths":   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"the other way":  "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"two lengths":    "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"folded":         "X: y\r\n Content-Length: 5\r\n\r\n",
		"LF alone":       "X: y\nContent-Length: 5\r\n\r\nhello",
		"LF at the end":  "X: y\r\n\n",
		"CR in a value":  "X: y\rContent-Length: 5\r\n\r\n",
		"folded by tabs": "Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n",
	} {
		for where, first := range before {
			for _, path := range []string{"/api", "/other"} {
				got := exchange(first + "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + text + next)
				answers := 1
				if first != "" {
					answers++
				}
				if len(got) != answers || !strings.HasPrefix(got[answers-1], "400 ") || answers == 2 && !strings.HasSuffix(got[0], `"hi"`) {
					t.Errorf("%s, %s, at %s: %q", name, where, path, got)
				}
			}
		}
	}
	got := exchange("POST /api HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" + next)
	if len(got) != 1 || !strings.HasPrefix(got[0], "400 ") {
		t.Errorf("chunks in HTTP/1.0: %q", got)
	}
}
