package suites

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket"
)

const python = "../../.cache/venv/bin/python"

// cases of the Autobahn test suite, by the query that chooses what the server sends: a case wants the same kind back,
// text or bytes, and a message that a peer receives has no kind. Left out are 12.1, 12.4 and 13, compressed texts, which
// kosoku cannot run, and most of 9 and 12, which are the same with other sizes.
var cases = map[string][]string{
	"": {"1.1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.1.1", "9.1.4", "9.3.1", "9.3.5", "9.5.1", "9.7.1", "10.*"},
	"?cf_protocol=protobuf": {"1.2.*", "9.2.1", "9.2.4", "9.4.1", "9.4.5", "9.6.1", "9.8.1",
		"12.2.2", "12.2.6", "12.3.2", "12.3.6", "12.5.2", "12.5.6"},
}

const least = 265

// otherwise has the cases that do not pass, with the reason, as docs/transports.md.
var otherwise = map[string]string{
	"2.10": "of several pings that arrive together the last one is answered", "2.11": "as 2.10",
	"5.6": "the pong for a ping that arrives with the end of a message comes behind what answers the message", "5.7": "as 5.6", "5.8": "as 5.6",
	"5.19": "as 5.6", "5.20": "as 5.6",
}

// TestAutobahn runs the cases against both drivers of WebSocket connections: on a loop, and with goroutines.
func TestAutobahn(t *testing.T) {
	t.Parallel()
	drivers := map[string]transport.Acceptor{"goroutines": echo{}}
	if poll.Supported() {
		l := loop.New()
		go l.Run()
		t.Cleanup(l.Close)
		drivers["loop"] = looping{loop: l}
	}
	for name, acceptor := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(websocket.NewHandler(acceptor, websocket.Config{
				Compression: true, MessageSizeLimit: 32 << 20, DecompressedMessageSizeLimit: 32 << 20, WriteTimeout: time.Minute,
			}))
			defer s.Close()
			n, failed := 0, 0
			for query, list := range cases {
				for id, fault := range run(t, "ws"+strings.TrimPrefix(s.URL, "http")+"/"+query, list) {
					n++
					if fault == "" {
						continue
					}
					failed++
					if otherwise[id] == "" {
						t.Errorf("case %s: %s", id, fault)
					}
				}
			}
			if n < least {
				t.Fatalf("%d cases ran, want %d", n, least)
			}
			t.Logf("%d of %d cases pass", n-failed, n)
		})
	}
}

// run returns what was wrong with each case; nothing if it passed.
func run(t *testing.T, address string, cases []string) map[string]string {
	t.Helper()
	cmd := exec.Command(python, append([]string{"autobahn.py", address}, cases...)...)
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	faults := make(map[string]string)
	for line := range bytes.Lines(out) {
		var r struct{ Case, Fault string }
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		faults[r.Case] = r.Fault
	}
	return faults
}
