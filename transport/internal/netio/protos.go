package netio

import (
	"net/http"
	"slices"
)

// NextProtos returns the protocols that clients of s can choose from: protos, which its TLS configuration has, as
// ServeTLS changes them.
func NextProtos(protos []string, s *http.Server) []string {
	_, h2 := s.TLSNextProto["h2"]
	offers := map[string]bool{"h2": s.TLSNextProto == nil || h2, "http/1.1": true}
	if p := s.Protocols; p != nil {
		offers["h2"], offers["http/1.1"] = p.HTTP2(), p.HTTP1()
	}
	list := slices.DeleteFunc(slices.Clone(protos), func(p string) bool {
		offered, known := offers[p]
		return known && !offered
	})
	for _, p := range []string{"h2", "http/1.1"} {
		if offers[p] && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}
