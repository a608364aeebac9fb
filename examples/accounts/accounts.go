package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// account is the entry of a user in the file: in your program a row of a database.
type account struct {
	Password string   // as hashPassword returns it
	Rooms    []string // where the user may be
}

type accounts map[string]account

func readAccounts(file string) (accounts, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var a accounts
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for user, of := range a {
		if _, _, err := parseHash(of.Password); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, user, err)
		}
	}
	return a, nil
}

func (a accounts) mayEnter(user, room string) bool { return slices.Contains(a[user].Rooms, room) }

// noPassword stands for the password of unknown users, so that the time does not tell whether the user exists.
var noPassword = strings.Repeat("A", 22) + "." + strings.Repeat("A", 43)

func (a accounts) check(user, password string) bool {
	of, known := a[user]
	if !known {
		of.Password = noPassword
	}
	salt, want, err := parseHash(of.Password)
	if err != nil {
		return false
	}
	got, err := pbkdf2.Key(sha256.New, password, salt, iterations, len(want))
	return err == nil && hmac.Equal(got, want) && known
}

// iterations of PBKDF2 make guessing slow: some 0.1 s each.
const iterations = 600_000

// hashPassword returns SALT.HASH.
func hashPassword(password string) (string, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	key, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	return base64.RawURLEncoding.EncodeToString(salt) + "." + base64.RawURLEncoding.EncodeToString(key), err
}

func parseHash(hashed string) (salt, key []byte, err error) {
	first, second, _ := strings.Cut(hashed, ".")
	salt, err1 := base64.RawURLEncoding.DecodeString(first)
	key, err2 := base64.RawURLEncoding.DecodeString(second)
	if err1 != nil || err2 != nil || len(salt) == 0 || len(key) != sha256.Size {
		return nil, nil, errors.New("the password is not what -hash prints")
	}
	return salt, key, nil
}

// The cookie of a session.
const (
	cookie   = "session"
	lifetime = 12 * time.Hour
)

// sessions signs cookies with a key that all nodes have, so none keeps a list of them.
type sessions struct{ key []byte }

func newSessions(key string) (*sessions, error) {
	if len(key) < 32 {
		return nil, fmt.Errorf("SESSION_KEY has %d bytes of at least 32; all nodes need the same", len(key))
	}
	return &sessions{[]byte(key)}, nil
}

func (s *sessions) start(user string) *http.Cookie {
	expires := time.Now().Add(lifetime)
	value := base64.RawURLEncoding.EncodeToString([]byte(user)) + "." + strconv.FormatInt(expires.Unix(), 10)
	return &http.Cookie{
		Name: cookie, Value: value + "." + s.sign(value), Expires: expires, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode, // and Secure, over HTTPS
	}
}

func (s *sessions) sign(value string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(value))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// of returns the user of a request, and when the session ends.
func (s *sessions) of(r *http.Request) (user string, expires time.Time, ok bool) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return "", time.Time{}, false
	}
	dot := strings.LastIndexByte(c.Value, '.')
	if dot < 0 || !hmac.Equal([]byte(s.sign(c.Value[:dot])), []byte(c.Value[dot+1:])) {
		return "", time.Time{}, false
	}
	// The rest was written by start.
	name, seconds, _ := strings.Cut(c.Value[:dot], ".")
	decoded, err1 := base64.RawURLEncoding.DecodeString(name)
	unix, err2 := strconv.ParseInt(seconds, 10, 64)
	expires = time.Unix(unix, 0)
	return string(decoded), expires, err1 == nil && err2 == nil && time.Now().Before(expires)
}
