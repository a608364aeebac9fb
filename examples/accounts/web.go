package main

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

//go:embed index.html
var page []byte

const (
	// passwordChecks is how many passwords are checked at a time, as each takes a processor.
	passwordChecks = 4
	maxForm        = 4 << 10
)

type app struct {
	users    accounts
	sessions *sessions
	node     *gyro.Node
	sdk      string
	checks   chan struct{} // one element per check under way
}

func (a *app) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("GET /centrifuge.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, a.sdk) })
	mux.HandleFunc("GET /me", a.me)
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("POST /logout", a.logout)
	mux.Handle("/ws", a.authenticated(websocket.NewHandler(a.node, websocket.Config{})))
	return mux
}

// authenticated gives connections the user of the session. They end with it.
func (a *app) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, expires, ok := a.sessions.of(r)
		if !ok {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		who := &gyro.Credentials{UserID: user, ExpireAt: expires}
		next.ServeHTTP(w, r.WithContext(gyro.SetCredentials(r.Context(), who)))
	})
}

func (a *app) me(w http.ResponseWriter, r *http.Request) {
	user, _, ok := a.sessions.of(r)
	if !ok {
		http.Error(w, "log in first", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"user": user, "rooms": a.users[user].Rooms})
}

func (a *app) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	user, password := r.PostFormValue("user"), r.PostFormValue("password")
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	case <-r.Context().Done():
		return
	}
	if !a.users.check(user, password) {
		http.Error(w, "wrong name or password", http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, a.sessions.start(user))
	w.WriteHeader(http.StatusNoContent)
}

// logout also ends all connections of the user, on all nodes.
func (a *app) logout(w http.ResponseWriter, r *http.Request) {
	user, _, ok := a.sessions.of(r)
	if !ok {
		http.Error(w, "not logged in", http.StatusUnauthorized)
		return
	}
	if err := a.node.Users().Disconnect(r.Context(), gyro.Target{User: user}, nil); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Path: "/", MaxAge: -1})
	w.WriteHeader(http.StatusNoContent)
}
