package main

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// newApp returns the application with a node that keeps everything in memory, and ann in the
// room team.
func newApp(t *testing.T) *app {
	hash, err := hashPassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := newSessions(strings.Repeat("k", 32))
	if err != nil {
		t.Fatal(err)
	}
	users := accounts{"ann": {hash, []string{"team"}}}
	node := gyrotest.NewNode(t, chat{users}.config())
	return &app{users: users, sessions: keys, node: node, checks: make(chan struct{}, passwordChecks)}
}

func TestLogin(t *testing.T) {
	a := newApp(t)
	s := httptest.NewServer(a.routes())
	t.Cleanup(s.Close)
	login := func(user, password string) (status int, cookies []*http.Cookie) {
		res, err := http.PostForm(s.URL+"/login", url.Values{"user": {user}, "password": {password}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode, res.Cookies()
	}
	for user, password := range map[string]string{"ann": "wrong", "": "", "eve": "correct horse", "nobody": strings.Repeat("x", maxForm)} {
		if status, cookies := login(user, password); status != http.StatusUnauthorized || len(cookies) > 0 {
			t.Errorf("%s with %.20q: %d", user, password, status)
		}
	}
	status, cookies := login("ann", "correct horse")
	if status != http.StatusNoContent || len(cookies) != 1 {
		t.Fatalf("%d, %v", status, cookies)
	}
	session := cookies[0]
	o := &gyrotest.Options{Header: http.Header{"Cookie": {session.Name + "=" + session.Value}}}
	gyrotest.Dial(t, s.URL+"/ws", o).Connect(nil)
	for name, value := range map[string]string{
		"none": "", "no parts": "x", "another user": strings.Replace(session.Value, "YW5u", "ZXZl", 1), "unsigned": session.Value[:strings.LastIndex(session.Value, ".")+1],
	} {
		o := &gyrotest.Options{Header: http.Header{"Cookie": {session.Name + "=" + value}}}
		if c, status, body := gyrotest.Handshake(t, s.URL+"/ws", o); c != nil || status != http.StatusUnauthorized || body != "log in first\n" {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

func TestRooms(t *testing.T) {
	a := newApp(t)
	open := func(user string) *gyrotest.Client {
		ctx := gyro.SetCredentials(t.Context(), &gyro.Credentials{UserID: user})
		c := gyrotest.Open(t, a.node, &gyrotest.Options{Context: ctx})
		c.Connect(nil)
		return c
	}
	eve, ann := open("eve"), open("ann")
	for _, ch := range []string{"room:team", "room:", "team"} {
		_, err := eve.Try(&protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: ch}})
		if !errors.Is(err, gyro.ErrorPermissionDenied) {
			t.Errorf("eve in %s: %v", ch, err)
		}
	}
	publish := func(data string) error {
		_, err := ann.Try(&protocol.Command{Publish: &protocol.PublishRequest{Channel: "room:team", Data: []byte(data)}})
		return err
	}
	if err := publish(`{"text":"too early"}`); !errors.Is(err, gyro.ErrorPermissionDenied) {
		t.Errorf("outside of the room: %v", err)
	}
	ann.Subscribe("room:team", nil)
	for data, want := range map[string]error{`"text"`: errMessage, `{}`: errLength, `{"text":"` + strings.Repeat("ü", 501) + `"}`: errLength} {
		if err := publish(data); !errors.Is(err, want) {
			t.Errorf("%.20s: %v", data, err)
		}
	}
	ann.Publish("room:team", `{"text":"hello","admin":true}`)
	if p := ann.Publication("room:team"); string(p.Data) != `{"text":"hello"}` || p.Info.User != "ann" {
		t.Errorf("got %s of %+v", p.Data, p.Info)
	}
}

func TestAccountsFile(t *testing.T) {
	for name, want := range map[string]string{"main.go": "main.go: invalid", "no such file": "no such file"} {
		if _, err := readAccounts(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newSessions("short"); err == nil || !strings.Contains(err.Error(), "SESSION_KEY has 5 bytes of at least 32") {
		t.Errorf("a short key: %v", err)
	}
}

// The streams of an HTTP/2 connection are requests in progress, which the server waits for and the node ends. Neither waits
// for the other.
func TestShutdownWithStreams(t *testing.T) {
	a := newApp(t)
	streams := httpstream.NewHandler(httpstream.HTTPStream, a.node, httpstream.Config{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		streams.ServeHTTP(w, r.WithContext(gyro.SetCredentials(r.Context(), &gyro.Credentials{UserID: "ann"})))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	res, err := s.Client().Post(s.URL, "application/json", strings.NewReader(`{"id":1,"connect":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || res.ProtoMajor != 2 {
		t.Fatalf("HTTP %d: %q, %v", res.ProtoMajor, lines.Text(), lines.Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := shutdown(ctx, s.Config, a.node); err != nil {
		t.Error(err)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if !strings.Contains(last, `"code":3001`) {
		t.Errorf("the stream ends with %q", last)
	}
}
