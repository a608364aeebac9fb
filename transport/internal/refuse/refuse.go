// Package refuse refuses HTTP requests that open no connection, for all transports: the line of the log, the answer, and
// the default check of the origin.
package refuse

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
)

// Refusal says how a request is refused, and why.
type Refusal struct {
	Status int
	// Key names the option that would allow the request; "": none would.
	Text, Key string
	// Body of the answer. Default: Prefix and Text, without a Prefix nothing.
	Body string
}

// BadRequest returns a refusal with status 400.
func BadRequest(text string) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Text: text}
}

// Refuser refuses the requests to a transport.
type Refuser struct {
	// Acceptor is the node that writes the log. Without a node there is no line.
	Acceptor transport.Acceptor
	// Kind is the message of the line.
	Kind string
	// Prefix stands before the text in answers, such as "websocket: ".
	Prefix string
	// Allow has the methods for answers of status 405.
	Allow string
}

// Refuse reports a refusal, and answers with it.
func (f *Refuser) Refuse(w http.ResponseWriter, q *front.Request, no *Refusal) {
	f.Report(q, slog.LevelInfo, no.Status, refusal.Because(errors.New(http.StatusText(no.Status)), no.Key, no.Text))
	if no.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", f.Allow)
	}
	body := no.Body
	if f.Prefix != "" {
		body = cmp.Or(body, f.Prefix+no.Text)
	}
	if body == "" {
		w.WriteHeader(no.Status)
		return
	}
	http.Error(w, body, no.Status)
}

// Report makes the node write a line.
func (f *Refuser) Report(q *front.Request, level slog.Level, status int, why error) {
	nodeaccess.Refused(f.Acceptor, refusal.Refusal{
		Kind: f.Kind, Level: level, Addr: q.RemoteAddr, Origin: q.Get("Origin"), Path: q.Path,
	}, status, why)
}

// HangUp ends the connection after the answer, if there is a body that was not read: net/http would wait for it. The
// rest may come for this time, because a client that gets a reset while it sends loses the answer.
func HangUp(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait))
	}
}

// SameOrigin: the host of the field Origin is the request's own, in any letter case, or there is no Origin.
func SameOrigin(q *front.Request) bool {
	origin := q.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, q.Host)
}
