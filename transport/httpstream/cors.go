package httpstream

import (
	"net/http"

	"github.com/gyrohq/gyro/transport/front"
)

// cors decides which pages of other origins may read the answer; nil: none. Browsers hide it from all others.
type cors func(q *front.Request) bool

const (
	allowOrigin      = "Access-Control-Allow-Origin"
	allowCredentials = "Access-Control-Allow-Credentials"
	allowHeaders     = "Access-Control-Allow-Headers"
	allowMethods     = "Access-Control-Allow-Methods"
	maxAge           = "Access-Control-Max-Age"
)

func (c cors) each(q *front.Request, field func(name, value string)) {
	origin := q.Get("Origin")
	if c == nil || origin == "" || !c(q) {
		return
	}
	field(allowOrigin, origin)
	field(allowCredentials, "true")
	field("Vary", "Origin")
	if want := q.Get("Access-Control-Request-Headers"); want != "" && want != "null" {
		field(allowHeaders, want)
	}
}

func (c cors) append(q *front.Request, head []byte) []byte {
	c.each(q, func(name, value string) {
		head = append(append(append(append(head, name...), ": "...), value...), "\r\n"...)
	})
	return head
}

func (c cors) set(q *front.Request, h http.Header) { c.each(q, h.Add) }

// preflight answers a browser that asks which requests pages may send.
func preflight(w http.ResponseWriter, methods string) {
	h := w.Header()
	h.Set(maxAge, "300")
	h.Set(allowMethods, methods)
	w.WriteHeader(http.StatusNoContent)
}
