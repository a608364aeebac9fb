package main

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
)

const (
	cookie   = "session"
	lifetime = 12 * time.Hour
)

type session struct {
	id, user string
	expires  time.Time
}

type sessions struct {
	mu   sync.Mutex
	byID map[string]session
}

func (s *sessions) start(user string) session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]session)
	}
	n := session{id: rand.Text(), user: user, expires: time.Now().Add(lifetime)}
	s.byID[n.id] = n
	return n
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

func (s *sessions) get(id string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.byID[id]
	return n, ok && time.Now().Before(n.expires)
}

func (s *sessions) of(r *http.Request) (session, bool) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return session{}, false
	}
	return s.get(c.Value)
}

// Real applications ask for a password, too.
func (a *app) login(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	if user == "" {
		http.Error(w, "user is missing", http.StatusBadRequest)
		return
	}
	s := a.sessions.start(user)
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: s.id, Expires: s.expires, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode, // and Secure, over HTTPS
	})
	w.WriteHeader(http.StatusNoContent)
}

// logout also ends the connections of the session's user.
func (a *app) logout(w http.ResponseWriter, r *http.Request) {
	s, ok := a.sessions.of(r)
	if !ok {
		http.Error(w, "not logged in", http.StatusUnauthorized)
		return
	}
	a.sessions.end(s.id)
	if err := a.node.Users().Disconnect(r.Context(), gyro.Target{User: s.user}, nil); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
