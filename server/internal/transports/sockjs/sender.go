package sockjs

import (
	"crypto/subtle"
	"net/http"
)

// sender identifies the client behind the requests of a session by their header fields. Pages choose the IDs of
// sessions, so an ID proves nothing.
type sender struct {
	first, latest http.Header
}

// sends tells whether a request is from the sender: with the same fields that name a user and, if the first request had
// cookies, with one of the first request or of the latest one. Others may have changed, as sites and load balancers change
// them while a session lasts.
func (s *sender) sends(h http.Header, fields []string) bool {
	for _, name := range fields {
		if !same(h.Get(name), s.first.Get(name)) {
			return false
		}
	}
	if s.first["Cookie"] == nil {
		return true
	}
	if !shareCookie(h, s.first) && !shareCookie(h, s.latest) {
		return false
	}
	s.latest = h
	return true
}

func shareCookie(a, b http.Header) bool {
	of := cookies(b)
	for _, c := range cookies(a) {
		for _, d := range of {
			if c.Name == d.Name && same(c.Value, d.Value) {
				return true
			}
		}
	}
	return false
}

func cookies(h http.Header) []*http.Cookie {
	return (&http.Request{Header: http.Header{"Cookie": h["Cookie"]}}).Cookies()
}

// same compares secrets.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
