package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// authenticator checks the API key of requests (server-api.md 2.1).
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
	if a.insecure {
		return true
	}
	if !a.enabled {
		return false
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		// Authorization is not looked at, even if this is the wrong key.
		if a.matches(key) {
			return true
		}
	} else if parts := strings.Fields(r.Header.Get("Authorization")); len(parts) == 2 &&
		strings.EqualFold(parts[0], "apikey") && a.matches(parts[1]) {
		return true
	}
	return r.URL.RawQuery != "" && a.matches(r.URL.Query().Get("api_key"))
}

func (a *authenticator) matches(key string) bool {
	digest := sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(digest[:], a.digest[:]) == 1
}
