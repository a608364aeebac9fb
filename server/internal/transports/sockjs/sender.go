package sockjs

import (
	"crypto/subtle"
	"net/http"
)

// sender identifies the client of a session by header fields. Pages choose the IDs of sessions, so an ID proves nothing.
type sender struct {
	first, latest http.Header
}

// sends compares the fields that name a user and, if the first request had cookies, requires one of the first request or
// of the latest one. Others may change while a session lasts.
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

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
