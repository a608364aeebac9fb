// Package admin serves the admin web interface (docs/admin.md): the login, the endpoints for operators, and the web
// application.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
)

const maxLogin = 1 << 20

// Config of a Handler.
type Config struct {
	// Prefix of all paths, without a slash at the end.
	Prefix string
	// Settings returns the section admin in force. Each request calls it.
	Settings func() *config.Admin
	// Endpoints are served to operators alone, at PREFIX/admin/NAME. The context of a request ends with the operator's
	// session.
	Endpoints map[string]Endpoint
	Logger    *slog.Logger
}

// Endpoint serves requests of one method, or of all if it is empty.
type Endpoint struct {
	Method string
	http.Handler
}

// Handler serves the interface.
type Handler struct {
	// Paths are served exactly.
	Paths map[string]http.Handler
	// Rest, if it is not nil, serves all other paths below the prefix.
	Rest http.Handler

	settings func() *config.Admin
	throttle *throttle
	refusals refusal.Reporter
}

// New returns a handler. The error names the key of a web application that is not there.
func New(c Config) (*Handler, error) {
	h := &Handler{settings: c.Settings, throttle: newThrottle(), refusals: refusal.Reporter{Log: c.Logger}}
	ui, err := newUI(c.Settings(), c.Prefix, c.Logger)
	if err != nil {
		return nil, err
	}
	endpoints := map[string]http.Handler{
		"init": http.HandlerFunc(h.init),
		"auth": only(http.MethodPost, http.HandlerFunc(h.login)),
	}
	for name, e := range c.Endpoints {
		endpoints[name] = only(e.Method, h.operators(e))
	}
	// Pages of other sites could send requests, although they could not read the answers; without a login these would
	// take effect.
	protect := http.NewCrossOriginProtection()
	h.Paths, h.Rest = make(map[string]http.Handler), ui.rest
	for name, served := range endpoints {
		h.Paths[c.Prefix+"/admin/"+name] = protect.Handler(secured(served))
	}
	for path, f := range ui.files {
		h.Paths[c.Prefix+path] = f
	}
	if c.Prefix != "" && h.Rest == nil {
		h.Paths[c.Prefix] = http.RedirectHandler(c.Prefix+"/", http.StatusMovedPermanently)
	}
	return h, nil
}

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func protect(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", policy)
}

func only(method string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if method != "" && r.Method != method {
			w.Header().Set("Allow", method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *Handler) init(w http.ResponseWriter, r *http.Request) {
	_, err := h.session(r)
	Answer(w, map[string]any{"authenticated": err == nil, "edition": "oss", "insecure": h.settings().Insecure})
}

// Answer writes a value as JSON.
func Answer(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may go away
}

var errRefused = errors.New("refused")

func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	s, now := h.settings(), time.Now()
	from := sourceOf(s, r, now)
	wait, ok := h.throttle.begin(from, now)
	if !ok {
		h.refuse(r, http.StatusTooManyRequests, "", "too many logins have failed")
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		http.Error(w, "Too Many Requests: too many logins have failed", http.StatusTooManyRequests)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	password := r.PostFormValue("password") // not of the URL, which logs of reverse proxies have
	var key, text string
	switch {
	case s.Password == "" || s.Secret == "":
		key, text = "admin.password, admin.secret", "admin.password and admin.secret are not both set, so nobody can log in"
	case !equal(password, s.Password):
		key, text = "admin.password", "the password is wrong"
	default:
		h.throttle.succeeded(from)
		http.SetCookie(w, newDevice(s, r, now))
		h.refusals.Log.Info("an operator has logged in", "addr", r.RemoteAddr)
		Answer(w, map[string]string{"token": newToken(s, now)})
		return
	}
	h.refuse(r, http.StatusBadRequest, key, text)
	http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
}

func (h *Handler) refuse(r *http.Request, status uint32, key, text string) {
	h.refusals.Report(refusal.Refusal{Kind: "admin request refused", Level: slog.LevelWarn, Addr: r.RemoteAddr, Path: r.URL.Path},
		status, refusal.Because(errRefused, key, text))
}

var (
	errNoSession = errors.New("it has no token of a session")
	errSession   = errors.New("its token is not valid, or no more")
	errKey       = errors.New("its X-API-Key is not admin.api_key")
)

// session returns the end of the session of a request; the zero time is never.
func (h *Handler) session(r *http.Request) (expires time.Time, err error) {
	s := h.settings()
	if s.Insecure {
		return time.Time{}, nil
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		if s.APIKey == "" || !equal(key, s.APIKey) {
			return time.Time{}, errKey
		}
		return time.Time{}, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "token") {
		return time.Time{}, errNoSession
	}
	expires, ok := checkToken(s, strings.TrimSpace(token), time.Now())
	if !ok {
		return time.Time{}, errSession
	}
	return expires, nil
}

func (h *Handler) operators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expires, err := h.session(r)
		if err != nil {
			h.refuse(r, http.StatusUnauthorized, "admin.password, admin.api_key", err.Error())
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !expires.IsZero() {
			ctx, cancel := context.WithDeadline(r.Context(), expires)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
