package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// authenticator checks the API key of requests.
type authenticator struct {
	insecure bool
	enabled  bool
	// digest of the key: comparing digests takes the same time whatever is
	// presented, its length included.
	digest [sha256.Size]byte
}

func newAuthenticator(key string, insecure bool) authenticator {
	return authenticator{insecure: insecure, enabled: key != "", digest: sha256.Sum256([]byte(key))}
}

func (a *authenticator) allow(r *http.Request) bool {
	return a.allowFields(r.Header) ||
		a.enabled && r.URL.RawQuery != "" && a.matches(r.URL.Query().Get("api_key"))
}

// explain says what is wrong with a request that allow refuses.
func (a *authenticator) explain(r *http.Request) string {
	switch {
	case !a.enabled:
		return "the server has no http_api.key, and without one no request is allowed"
	case r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "" && !r.URL.Query().Has("api_key"):
		return "the request has no API key"
	}
	return "the request's API key is not http_api.key"
}

// fields are those of a request, whoever has read it.
type fields interface{ Get(name string) string }

// allowFields looks for the key in the fields X-API-Key and Authorization.
func (a *authenticator) allowFields(f fields) bool {
	if a.insecure || !a.enabled {
		return a.insecure
	}
	if key := f.Get("X-Api-Key"); key != "" { // Authorization is not looked at, even if this is the wrong key
		return a.matches(key)
	}
	parts := strings.Fields(f.Get("Authorization"))
	return len(parts) == 2 && strings.EqualFold(parts[0], "apikey") && a.matches(parts[1])
}

func (a *authenticator) matches(key string) bool {
	digest := sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(digest[:], a.digest[:]) == 1
}
