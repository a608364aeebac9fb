package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"path"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// A token is the second of its expiry, a nonce, and the HMAC of both, in Base64. Sessions are not stored, so all nodes
// with the same secret accept the token.
const (
	timeSize  = 8
	claimSize = timeSize + 8
	tokenSize = claimSize + sha256.Size
)

func newToken(s *config.Admin, now time.Time) string {
	token := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(now.Add(s.SessionTTL).Unix()))
	token = token[:claimSize]
	rand.Read(token[timeSize:]) // never fails
	return base64.RawURLEncoding.EncodeToString(append(token, sign(s, token)...))
}

func checkToken(s *config.Admin, text string, now time.Time) (expires time.Time, ok bool) {
	token, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(token) != tokenSize || s.Secret == "" || s.Password == "" {
		return time.Time{}, false
	}
	if !hmac.Equal(token[claimSize:], sign(s, token[:claimSize])) {
		return time.Time{}, false
	}
	expires = time.Unix(int64(binary.BigEndian.Uint64(token)), 0)
	// Sessions that began under a longer admin.session_ttl do not outlive the one in force.
	return expires, now.Before(expires) && !expires.After(now.Add(s.SessionTTL))
}

// A device is a browser in which an operator has logged in. Its cookie gives it a login budget of its own, which an
// attacker at the same address, or at many, cannot use up. The cookie opens nothing.
const (
	deviceCookie = "gyro-admin-device"
	deviceTTL    = 90 * 24 * time.Hour
)

type device [claimSize]byte

func newDevice(s *config.Admin, r *http.Request, now time.Time) *http.Cookie {
	token := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(now.Add(deviceTTL).Unix()))
	token = token[:claimSize]
	rand.Read(token[timeSize:]) // never fails
	return &http.Cookie{
		Name: deviceCookie, Value: base64.RawURLEncoding.EncodeToString(append(token, signDevice(s, token)...)),
		Path: path.Dir(r.URL.Path), MaxAge: int(deviceTTL / time.Second), Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func deviceOf(s *config.Admin, r *http.Request, now time.Time) (d device) {
	c, err := r.Cookie(deviceCookie)
	if err != nil || s.Secret == "" {
		return d
	}
	token, err := base64.RawURLEncoding.Strict().DecodeString(c.Value)
	if err != nil || len(token) != tokenSize || !hmac.Equal(token[claimSize:], signDevice(s, token[:claimSize])) ||
		int64(binary.BigEndian.Uint64(token)) <= now.Unix() {
		return d
	}
	return device(token[:claimSize])
}

func signDevice(s *config.Admin, claims []byte) []byte {
	mac := hmac.New(sha256.New, []byte("gyro admin device\x00"+s.Secret))
	mac.Write(claims)
	return mac.Sum(nil)
}

// sign has the password in its key, so that a new one ends all sessions.
func sign(s *config.Admin, claims []byte) []byte {
	key := hmac.New(sha256.New, []byte(s.Secret))
	key.Write([]byte("gyro admin session\x00" + s.Password))
	mac := hmac.New(sha256.New, key.Sum(nil))
	mac.Write(claims)
	return mac.Sum(nil)
}

// equal takes a time that depends on neither secret.
func equal(given, secret string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
