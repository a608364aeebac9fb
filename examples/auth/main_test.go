package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
)

func start(t *testing.T) (a *app, address string) {
	a, err := newApp()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Config.Handler = a.routes("http://" + s.Listener.Addr().String())
	s.Start()
	t.Cleanup(func() {
		s.Close()
		if err := a.node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a, s.URL
}

// login returns the header of requests with the user's session.
func login(t *testing.T, address, user string) http.Header {
	res, err := http.PostForm(address+"/login", url.Values{"user": {user}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	header := http.Header{"Origin": {address}}
	for _, c := range res.Cookies() {
		header.Add("Cookie", c.Name+"="+c.Value)
	}
	return header
}

func TestSession(t *testing.T) {
	a, address := start(t)
	header := login(t, address, "ann")
	c := gyrotest.Dial(t, address+"/ws", &gyrotest.Options{Header: header})
	if subs := c.Connect(nil).Subs; subs["user:ann"] == nil {
		t.Fatalf("subscriptions %v", subs)
	}
	if _, err := a.node.Publish(t.Context(), "user:ann", []byte(`"for ann"`), nil); err != nil {
		t.Fatal(err)
	}
	if p := c.Publication("user:ann"); string(p.Data) != `"for ann"` {
		t.Errorf("got %s", p.Data)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/logout", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("logout: %v, %v", res, err)
	}
	res.Body.Close()
	if d := c.Disconnected(); d != protocol.DisconnectForceNoReconnect {
		t.Errorf("disconnected with %v", d)
	}
	if c, status, _ := gyrotest.Handshake(t, address+"/ws", &gyrotest.Options{Header: header}); c != nil || status != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", status)
	}
}

func TestRefused(t *testing.T) {
	_, address := start(t)
	foreign := login(t, address, "ann")
	foreign.Set("Origin", "https://evil.example")
	for name, tc := range map[string]struct {
		header http.Header
		status int
	}{
		"no cookie":      {http.Header{"Origin": {address}}, http.StatusUnauthorized},
		"unknown cookie": {http.Header{"Origin": {address}, "Cookie": {"session=x"}}, http.StatusUnauthorized},
		"foreign page":   {foreign, http.StatusForbidden},
	} {
		if c, status, _ := gyrotest.Handshake(t, address+"/ws", &gyrotest.Options{Header: tc.header}); c != nil || status != tc.status {
			t.Errorf("%s: got %d", name, status)
		}
	}
}
