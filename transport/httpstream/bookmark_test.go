package httpstream

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestLastEventID: a client goes on from the id of its last event, and not from older positions in its
// request. What is no id of ours changes nothing.
func TestLastEventID(t *testing.T) {
	const request = `{"subs":{"news":{"recover":true,"offset":2,"epoch":"old","delta":"fossil"},"more":{}}}`
	for w := range ways {
		for id, want := range map[string]string{
			"":                       "more: false 0 ; news: true 2 old fossil",
			"news=12.AbCd":           "more: false 0 ; news: true 12 AbCd fossil",
			"news=12.AbCd&x%20y=0.e": "more: false 0 ; news: true 12 AbCd fossil; x y: true 0 e ",
			"42":                     "more: false 0 ; news: true 2 old fossil",
			"news=12.AbCd&":          "more: false 0 ; news: true 2 old fossil",
			"news=1.e&a=2." + strings.Repeat("x", maxEventID): "more: false 0 ; news: true 2 old fossil",
		} {
			t.Run(fmt.Sprintf("%v/%.30s", w, id), func(t *testing.T) {
				s := newServer(t, UniSSE, w, Config{}, nil)
				r, _ := http.NewRequest(http.MethodGet, s.URL+s.path()+"?cf_connect="+queryEscape(request), nil)
				if id != "" {
					r.Header.Set("Last-Event-ID", id)
				}
				resp := s.open(r)
				defer resp.Body.Close()
				p := wait.Receive(t, "a peer", s.peers)
				var got []string
				for _, ch := range []string{"more", "news", "x y"} {
					if sub := p.Info.Connect.Subs[ch]; sub != nil {
						got = append(got, fmt.Sprint(ch, ": ", sub.Recover, " ", sub.Offset, " ", sub.Epoch, " ", sub.Delta))
					}
				}
				text := strings.ReplaceAll(strings.Join(got, "; "), "0  ", "0 ")
				if text != want || p.Info.Bookmarks != maxEventID {
					t.Errorf("got %q, want %q", text, want)
				}
			})
		}
	}
}

// TestLastEventIDInQuery: a page that makes a new EventSource has no other way. When that one comes back,
// the field is newer.
func TestLastEventIDInQuery(t *testing.T) {
	for w := range ways {
		for field, want := range map[string]uint64{"": 7, "news=12.e": 12} {
			s := newServer(t, UniSSE, w, Config{}, nil)
			r, _ := http.NewRequest(http.MethodGet, s.URL+s.path()+"?last_event_id=news%3D7.e", nil)
			if field != "" {
				r.Header.Set("Last-Event-ID", field)
			}
			resp := s.open(r)
			defer resp.Body.Close()
			p := wait.Receive(t, "a peer", s.peers)
			if sub := p.Info.Connect.Subs["news"]; sub == nil || sub.Offset != want {
				t.Errorf("%v, field %q: %+v", w, field, sub)
			}
		}
	}
}

// TestRetry: each client is told a time within the bounds, and not all the same.
func TestRetry(t *testing.T) {
	cfg := Config{RetryMin: 700 * time.Millisecond, RetryMax: 900 * time.Millisecond}
	for w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			s := newServer(t, UniSSE, w, cfg, nil)
			told := make(map[int]bool)
			for range 20 {
				r, _, p := s.connect()
				expect(t, r, "\r\n")
				told[retryOf(t, r)] = true
				p.write("{}")
				expect(t, r, "data: {}\n\n")
			}
			if len(told) < 5 {
				t.Errorf("20 clients were told %v", told)
			}
		})
	}
	s := newServer(t, SSE, byRoute, cfg, nil)
	r, _, p := s.connect()
	p.write("{}")
	expect(t, r, "\r\ndata: {}\n\n") // an SDK decides itself
}

func retryOf(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	line, err := r.ReadString('\n')
	ms, bad := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(line, "retry: "), "\n"))
	if err != nil || bad != nil || ms < 700 || ms > 900 {
		t.Fatalf("got %q, %v", line, err)
	}
	expect(t, r, "\n")
	return ms
}
