package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

const secret = "a secret"

var now = time.Unix(2_000_000_000, 0)

func clock() time.Time { return now }

// hs256 signs any payload; the header is exactly as given.
func hs256(key, header, payload string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func token(payload string) string { return hs256(secret, `{"alg":"HS256"}`, payload) }

func verifier(t testing.TB, cfg config.Token) *Verifier {
	t.Helper()
	v, err := NewVerifier(cfg, Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }

// connectTests has payloads and what a connection token with them is.
var connectTests = []struct {
	payload string
	want    ConnectToken
	err     error
}{
	{`{}`, ConnectToken{}, nil},
	{`{"sub":"42"}`, ConnectToken{User: "42"}, nil},
	{`{"Sub":"42","EXP":1}`, ConnectToken{}, nil},
	{`{"sub":null,"exp":null,"expire_at":null,"aud":null,"info":null,"meta":null,"subs":null,"channels":null,"channel":null}`, ConnectToken{}, nil},
	{`{"sub":42}`, ConnectToken{}, ErrInvalid},
	{`{"iss":1}`, ConnectToken{}, ErrInvalid},
	{`{"jti":1}`, ConnectToken{}, ErrInvalid},
	{`{"iat":true}`, ConnectToken{}, ErrInvalid},
	{`{"iat":9000000000.5,"jti":"x","foo":{}}`, ConnectToken{ID: &channel.Token{ID: "x", IssuedAt: 9000000000}}, nil},
	{`{"caps":[1]}`, ConnectToken{}, ErrInvalid},
	{`{"caps":{}}`, ConnectToken{}, ErrInvalid},
	{`{"caps":[{"channels":["a"],"allow":["all"]}]}`, ConnectToken{}, ErrInvalid},
	{`{"caps":[{"channels":["a"],"allow":["sub"],"match":"glob"}]}`, ConnectToken{}, ErrInvalid},
	{`{"caps":null}`, ConnectToken{}, nil},
	{`{"jti":"` + strings.Repeat("x", 257) + `","iat":-1}`, ConnectToken{}, nil},
	{`{"jti":"` + strings.Repeat("x", 256) + `"}`, ConnectToken{ID: &channel.Token{ID: strings.Repeat("x", 256)}}, nil},
	{`{"aud":1}`, ConnectToken{}, ErrInvalid},
	{`{"aud":["a",1]}`, ConnectToken{}, ErrInvalid},
	{`{"aud":["a",null]}`, ConnectToken{}, ErrInvalid},
	{`{"aud":["a","b"]}`, ConnectToken{}, nil},
	{`{"channel":"x"}`, ConnectToken{}, ErrInvalid},
	{`{"channel":""}`, ConnectToken{}, nil},
	{`{"channel":1}`, ConnectToken{}, ErrInvalid},

	{`{"exp":2000000001}`, ConnectToken{ExpireAt: time.Unix(2000000001, 0)}, nil},
	{`{"exp":2000000000.5}`, ConnectToken{ExpireAt: time.Unix(2000000000, 0)}, nil},
	{`{"exp":"2000000001"}`, ConnectToken{ExpireAt: time.Unix(2000000001, 0)}, nil},
	{`{"exp":2000000000}`, ConnectToken{}, ErrExpired},
	{`{"exp":0}`, ConnectToken{}, ErrExpired},
	{`{"exp":-1}`, ConnectToken{}, ErrExpired},
	{`{"exp":1e30}`, ConnectToken{ExpireAt: channel.FromUnix(1<<63 - 1)}, nil},
	{`{"exp":1e999}`, ConnectToken{}, ErrInvalid},
	{`{"exp":"x"}`, ConnectToken{}, ErrInvalid},
	{`{"exp":[]}`, ConnectToken{}, ErrInvalid},
	{`{"nbf":1999999999}`, ConnectToken{}, nil},
	{`{"nbf":2000000000}`, ConnectToken{}, ErrExpired},
	{`{"nbf":{}}`, ConnectToken{}, ErrInvalid},
	{`{"exp":1,"channel":"x"}`, ConnectToken{}, ErrInvalid}, // 5 before 6
	{`{"exp":1,"sub":1}`, ConnectToken{}, ErrInvalid},       // 1 before 6
	{`{"exp":1,"nbf":"x"}`, ConnectToken{}, ErrInvalid},
	{`{"exp":1,"b64info":"!"}`, ConnectToken{}, ErrInvalid},
	{`{"exp":2000000001,"expire_at":0}`, ConnectToken{}, nil},
	{`{"exp":2000000001,"expire_at":-5}`, ConnectToken{}, nil},
	{`{"exp":2000000001,"expire_at":1}`, ConnectToken{ExpireAt: time.Unix(1, 0)}, nil},
	{`{"expire_at":2000000009}`, ConnectToken{ExpireAt: time.Unix(2000000009, 0)}, nil},
	{`{"exp":1,"expire_at":2000000009}`, ConnectToken{}, ErrExpired},
	{`{"expire_at":1.5}`, ConnectToken{}, ErrInvalid},
	{`{"expire_at":"1"}`, ConnectToken{}, ErrInvalid},
	{`{"expire_at":9223372036854775808}`, ConnectToken{}, ErrInvalid},

	{`{"info":{"a": 1},"meta":[1,` + "\r\n" + `2]}`, ConnectToken{Info: []byte(`{"a": 1}`), Meta: []byte(`[1,2]`)}, nil},
	{`{"info":1,"b64info":"aGk="}`, ConnectToken{Info: []byte("hi")}, nil},
	{`{"info":1,"b64info":""}`, ConnectToken{Info: []byte("1")}, nil},
	{`{"b64info":"aGk"}`, ConnectToken{}, ErrInvalid},
	{`{"b64info":1}`, ConnectToken{}, ErrInvalid},
	{`{"channels":["a","","b"]}`, ConnectToken{Subs: map[string]SubscribeOptions{"a": {}, "b": {}}}, nil},
	{`{"channels":"a"}`, ConnectToken{}, ErrInvalid},
	{`{"channels":["a"],"subs":{}}`, ConnectToken{Subs: map[string]SubscribeOptions{"a": {}}}, nil},
	{`{"channels":["a"],"subs":{"b":null,"":{}}}`, ConnectToken{Subs: map[string]SubscribeOptions{"b": {}}}, nil},
	{`{"subs":{"b":{"info":1,"b64data":"aGk=","x":1,"override":{"presence":{"value":false},"join_leave":{"value":true},` +
		`"force_push_join_leave":{},"force_recovery":null,"force_positioning":{"value":true}}}}}`,
		ConnectToken{Subs: map[string]SubscribeOptions{"b": {Info: []byte("1"), Data: []byte("hi"), Override: Override{
			Presence: ptr(false), JoinLeave: ptr(true), ForcePushJoinLeave: ptr(false), ForcePositioning: ptr(true)}}}}, nil},
	{`{"subs":{"b":{"b64info":"!"}}}`, ConnectToken{}, ErrInvalid},
	{`{"subs":{"b":{"b64data":"!"}}}`, ConnectToken{}, ErrInvalid},
	{`{"subs":{"b":{"override":{"presence":true}}}}`, ConnectToken{}, ErrInvalid},
	{`{"subs":{"b":{"override":{"presence":{"value":1}}}}}`, ConnectToken{}, ErrInvalid},
	{`{"subs":{"b":1}}`, ConnectToken{}, ErrInvalid},
	{`{"subs":[]}`, ConnectToken{}, ErrInvalid},
	{`null`, ConnectToken{}, ErrInvalid},
	{`[]`, ConnectToken{}, ErrInvalid},
	{`{`, ConnectToken{}, ErrInvalid},
	{"{\"sub\":\"\xff\"}", ConnectToken{}, ErrInvalid},
}

func TestConnect(t *testing.T) {
	v := verifier(t, config.Token{HMACSecretKey: secret})
	for _, tt := range connectTests {
		got, err := v.VerifyConnect(t.Context(), token(tt.payload))
		if !errors.Is(err, tt.err) || (err != nil) != (tt.err != nil) {
			t.Errorf("%s: error %v, want %v", tt.payload, err, tt.err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.payload, d)
		}
	}
}

// TestOverrideClaim: the claim override has each option. OverrideOf panics if the messages of an API lack one.
func TestOverrideClaim(t *testing.T) {
	token, err := verifier(t, config.Token{HMACSecretKey: secret}).VerifySubscribe(t.Context(), token(`{"channel":"a","override":{"presence":{},`+
		`"join_leave":{},"force_push_join_leave":{},"force_recovery":{},"force_positioning":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	claims := reflect.ValueOf(token.Override)
	for i := range claims.NumField() {
		if claims.Field(i).IsNil() {
			t.Errorf("the claim override does not set %s", claims.Type().Field(i).Name)
		}
	}
}

func TestSubscribe(t *testing.T) {
	v := verifier(t, config.Token{HMACSecretKey: secret})
	for _, tt := range []struct {
		payload string
		want    SubscribeToken
		err     error
	}{
		{`{"channel":"$a"}`, SubscribeToken{Channel: "$a"}, nil},
		{`{"channel":"a","sub":"42","client":"c","exp":2000000005,"info":{},"data":[],"override":{"presence":{"value":true}}}`,
			SubscribeToken{User: "42", Channel: "a", Client: "c", ExpireAt: time.Unix(2000000005, 0), Info: []byte("{}"), Data: []byte("[]"),
				Override: Override{Presence: ptr(true)}}, nil},
		{`{"channel":"a","exp":2000000005,"expire_at":0,"b64info":"aGk=","b64data":"aGk="}`,
			SubscribeToken{Channel: "a", Info: []byte("hi"), Data: []byte("hi")}, nil},
		{`{"channel":"a","jti":"x","iat":7}`, SubscribeToken{Channel: "a", ID: &channel.Token{ID: "x", IssuedAt: 7}}, nil},
		{`{"sub":"42"}`, SubscribeToken{}, ErrInvalid},
		{`{"exp":1}`, SubscribeToken{}, ErrExpired}, // 6 before 7
		{`{"channel":"a","exp":1}`, SubscribeToken{}, ErrExpired},
		{`{"channel":"a","nbf":2000000001}`, SubscribeToken{}, ErrExpired},
		{`{"channel":1}`, SubscribeToken{}, ErrInvalid},
		{`{"channel":"a","client":1}`, SubscribeToken{}, ErrInvalid},
		{`{"channel":"a","b64data":"!"}`, SubscribeToken{}, ErrInvalid},
		{`{"channel":"a","override":[]}`, SubscribeToken{}, ErrInvalid},
		{`{"channel":"a","subs":1,"allow":null}`, SubscribeToken{Channel: "a"}, nil},
		{`{"channel":"a","allow":["pub","hst"]}`, SubscribeToken{Channel: "a", Rights: channel.RightPublish | channel.RightHistory}, nil},
		{`{"channel":"a","allow":1}`, SubscribeToken{}, ErrInvalid},
		{`{"channel":"a","allow":["all"]}`, SubscribeToken{}, ErrInvalid},
	} {
		got, err := v.VerifySubscribe(t.Context(), token(tt.payload))
		if !errors.Is(err, tt.err) || (err != nil) != (tt.err != nil) {
			t.Errorf("%s: error %v, want %v", tt.payload, err, tt.err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.payload, d)
		}
	}
}

func TestIssuerAndAudience(t *testing.T) {
	for _, tt := range []struct {
		cfg     config.Token
		payload string
		ok      bool
	}{
		{config.Token{Issuer: "i"}, `{"iss":"i"}`, true},
		{config.Token{Issuer: "i"}, `{"iss":"ii"}`, false},
		{config.Token{Issuer: "i"}, `{}`, false},
		{config.Token{IssuerRegex: "b"}, `{"iss":"abc"}`, true},
		{config.Token{IssuerRegex: "^b$"}, `{"iss":"abc"}`, false},
		{config.Token{IssuerRegex: "b"}, `{}`, false},
		{config.Token{Audience: "a"}, `{"aud":"a"}`, true},
		{config.Token{Audience: "a"}, `{"aud":["b","a"]}`, true},
		{config.Token{Audience: "a"}, `{"aud":["b","aa"]}`, false},
		{config.Token{Audience: "a"}, `{"aud":[]}`, false},
		{config.Token{Audience: "a"}, `{}`, false},
		{config.Token{AudienceRegex: "^a.$"}, `{"aud":["b","ab"]}`, true},
		{config.Token{AudienceRegex: "^a.$"}, `{"aud":["b","abc"]}`, false},
		{config.Token{AudienceRegex: ".*"}, `{}`, false},
	} {
		tt.cfg.HMACSecretKey = secret
		_, err := verifier(t, tt.cfg).VerifyConnect(t.Context(), token(tt.payload))
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v %s: %v", tt.cfg, tt.payload, err)
		}
		expired := strings.Replace(tt.payload, "{", `{"exp":1,`, 1)
		expired = strings.Replace(expired, ",}", "}", 1)
		if _, err := verifier(t, tt.cfg).VerifyConnect(t.Context(), token(expired)); errors.Is(err, ErrExpired) != tt.ok {
			t.Errorf("%+v %s: %v", tt.cfg, expired, err)
		}
	}
}

func TestUserIDClaim(t *testing.T) {
	v := verifier(t, config.Token{HMACSecretKey: secret, UserIDClaim: "uid"})
	for payload, want := range map[string]string{
		`{"uid":"x","sub":"y"}`: "x", `{"uid":42}`: "42", `{"uid":true}`: "true", `{"uid":null,"sub":"y"}`: "", `{"sub":"y"}`: "",
		`{"uid":12345678901234567890}`: "12345678901234567890",
	} {
		if got, err := v.VerifyConnect(t.Context(), token(payload)); err != nil || got.User != want {
			t.Errorf("%s: %q %v", payload, got.User, err)
		}
	}
	if _, err := v.VerifyConnect(t.Context(), token(`{"uid":[1]}`)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestForm(t *testing.T) {
	v := verifier(t, config.Token{HMACSecretKey: secret})
	good := token(`{"sub":"42"}`)
	parts := strings.Split(good, ".")
	long := token(`{"sub":"` + strings.Repeat("a", MaxTokenLength) + `"}`)
	for _, bad := range []string{"", "eyJ", ".", "..", "eyJ..", "x" + good, " " + good, good + "\n", good + ".", good + "=", "bearer " + good,
		parts[0] + "." + parts[1], parts[0] + "\n." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + ".", long,
		good[:len(good)-2], parts[0] + "." + parts[1][:len(parts[1])-1] + "." + parts[2],
		hs256(secret, `{}`, `{}`), hs256(secret, `{"alg":1}`, `{}`), hs256(secret, `{"alg":"HS256","alg":1}`, `{}`), hs256(secret, `{"alg":"HS256"}x`, `{}`), hs256(secret, `{"alg":"hs256"}`, `{}`), hs256(secret, `{"alg":"HS384"}`, `{}`),
		hs256(secret, `{"alg":"XX"}`, `{}`), hs256(secret, ` {"alg":"HS256"}`, `{}`), hs256("other", `{"alg":"HS256"}`, `{}`), hs256("", `{"alg":"HS256"}`, `{}`),
		hs256(secret, `{"alg":"HS256","crit":["exp"]}`, `{}`), hs256(secret, `{"crit":[],"alg":"HS256"}`, `{}`), hs256(secret, `{"alg":"HS256","crit":null}`, `{}`),
	} {
		_, err := v.VerifyConnect(t.Context(), bad)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
		if len(bad) > 16 && err != nil && strings.Contains(err.Error(), bad[:16]) {
			t.Errorf("token in %q", err)
		}
	}
	if _, err := v.VerifyConnect(t.Context(), hs256(secret, `{"typ":"x","alg":"HS256","kid":"k"}`, `{}`)); err != nil {
		t.Error(err)
	}
}

// Every refusal of a token names the claim, and the key that decides if there is one.
func TestReasons(t *testing.T) {
	signed := func(alg string) string { return hs256(secret, `{"alg":"`+alg+`"}`, `{}`) }
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(rs.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	for _, tt := range []struct {
		cfg       config.Token
		token     string
		key, text string
	}{
		{config.Token{Issuer: "a"}, token(`{"iss":"b"}`), "issuer", "claim iss is not the configured issuer"},
		{config.Token{IssuerRegex: "a"}, token(`{"iss":"b"}`), "issuer_regex", "claim iss does not match"},
		{config.Token{Audience: "a"}, token(`{"aud":["b"]}`), "audience", "claim aud does not hold the configured audience"},
		{config.Token{AudienceRegex: "a"}, token(`{"aud":["b"]}`), "audience_regex", "nothing in claim aud matches"},
		{config.Token{}, token(`{"exp":1}`), "", "claim exp is past: the client has to get a new token"},
		{config.Token{}, token(`{"nbf":3e9}`), "", "claim nbf is to come: the clocks of the issuer and of the server may differ"},
		{config.Token{}, token(`{"sub":1}`), "", "claim sub has a wrong type or value"},
		{config.Token{}, token(`{"channel":"a"}`), "", "it is a subscription token: claim channel is present"},
		{config.Token{HMACSecretKey: "other"}, token(`{}`), "hmac_secret_key", "its signature does not verify: it is signed with another key"},
		{config.Token{RSAPublicKey: public}, signed("RS256"), "rsa_public_key", "its signature does not verify: it is signed with another key"},
		{config.Token{}, signed("RS256"), "rsa_public_key", "there is no key for its algorithm"},
		{config.Token{}, signed("ES256"), "ecdsa_public_key", "there is no key for its algorithm"},
		{config.Token{}, signed("EdDSA"), "eddsa_public_key", "there is no key for its algorithm"},
		{config.Token{}, signed("PS256"), "", "its algorithm is not supported"},
		{config.Token{}, signed("none"), "", "its algorithm is not supported"},
	} {
		if tt.cfg.HMACSecretKey == "" {
			tt.cfg.HMACSecretKey = secret
		}
		for _, section := range []string{"client.token", "client.subscription_token"} {
			v, err := NewVerifier(tt.cfg, Options{Section: section, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			want := tt.key
			if want != "" {
				want = section + "." + want
				keytest.Check(t, want)
			}
			_, err = v.VerifyConnect(t.Context(), tt.token)
			if key, text := refusal.Explain(err); key != want || text != tt.text {
				t.Errorf("%s: %q %q, want %q %q", tt.token, key, text, want, tt.text)
			}
		}
	}
	v, err := NewVerifier(config.Token{RSAPublicKey: public}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.VerifyConnect(t.Context(), token(`{}`))
	if key, text := refusal.Explain(err); key != "client.token.hmac_secret_key" || text != "there is no key for its algorithm" {
		t.Errorf("without a secret: %q %q", key, text)
	}
}

// A token whose user is in another claim than the configured one says in which.
func TestOtherUser(t *testing.T) {
	for _, tt := range []struct{ claim, payload, want string }{
		{"", `{"sub":"1","user_id":"2"}`, ""}, {"", `{"user_id":"2"}`, "user_id"}, {"", `{"user":2}`, "user"}, {"", `{}`, ""},
		{"", `{"user_id":null}`, ""}, {"user_id", `{"sub":"1"}`, "sub"}, {"user_id", `{"user_id":"1","sub":"2"}`, ""}, {"", `{"sub":""}`, ""},
	} {
		got, err := verifier(t, config.Token{HMACSecretKey: secret, UserIDClaim: tt.claim}).VerifyConnect(t.Context(), token(tt.payload))
		if err != nil || got.OtherUser != tt.want {
			t.Errorf("%s with %q: %q %v, want %q", tt.payload, tt.claim, got.OtherUser, err, tt.want)
		}
	}
}

func TestRotation(t *testing.T) {
	old, cur := hs256("old", `{"alg":"HS256"}`, `{}`), hs256("new", `{"alg":"HS256"}`, `{}`)
	for _, tt := range []struct {
		cfg        config.Token
		oldOK, new bool
	}{
		{config.Token{HMACSecretKey: "new"}, false, true},
		{config.Token{HMACSecretKey: "new", HMACPreviousSecretKey: "old"}, true, true},
		{config.Token{HMACSecretKey: "new", HMACPreviousSecretKey: "old", HMACPreviousValidUntil: now.Unix()}, true, true},
		{config.Token{HMACSecretKey: "new", HMACPreviousSecretKey: "old", HMACPreviousValidUntil: now.Unix() - 1}, false, true},
		{config.Token{HMACPreviousSecretKey: "old"}, false, false},
		{config.Token{}, false, false},
	} {
		v := verifier(t, tt.cfg)
		_, err1 := v.VerifyConnect(t.Context(), old)
		_, err2 := v.VerifyConnect(t.Context(), cur)
		if (err1 == nil) != tt.oldOK || (err2 == nil) != tt.new {
			t.Errorf("%+v: %v %v", tt.cfg, err1, err2)
		}
	}
}

// TestNamedUser: a refusal names the user of the token, and says whether somebody else may have written it.
func TestNamedUser(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg        config.Token
		token      string
		user       string
		unverified bool
	}{
		"expired":         {config.Token{HMACSecretKey: "s"}, hs256("s", `{"alg":"HS256"}`, `{"sub":"ann","exp":1}`), "ann", false},
		"another secret":  {config.Token{HMACSecretKey: "s"}, hs256("x", `{"alg":"HS256"}`, `{"sub":"ann"}`), "ann", true},
		"another issuer":  {config.Token{HMACSecretKey: "s", Issuer: "me"}, hs256("s", `{"alg":"HS256"}`, `{"sub":"ann","iss":"you"}`), "ann", true},
		"other algorithm": {config.Token{HMACSecretKey: "s"}, hs256("s", `{"alg":"none"}`, `{"sub":"ann"}`), "ann", true},
		"other claim":     {config.Token{HMACSecretKey: "s", UserIDClaim: "uid"}, hs256("s", `{"alg":"HS256"}`, `{"uid":7,"exp":1}`), "7", false},
		"no user":         {config.Token{HMACSecretKey: "s"}, hs256("s", `{"alg":"HS256"}`, `{"exp":1}`), "", false},
		"no token":        {config.Token{HMACSecretKey: "s"}, "eyJ", "", false},
	} {
		_, err := verifier(t, tt.cfg).VerifyConnect(t.Context(), tt.token)
		r, ok := errors.AsType[*refusal.Reason](err)
		if !ok || r.User != tt.user || r.Unverified != tt.unverified {
			t.Errorf("%s: %+v", name, err)
		}
		if _, err := verifier(t, tt.cfg).VerifyConnect(t.Context(), "eyJ"); err.(*refusal.Reason).User != "" { //nolint:errorlint // it is one
			t.Errorf("%s: the next refusal has its user", name)
		}
	}
}

// TestPreviousIsCounted: tokens that only the previous secret verifies.
func TestPreviousIsCounted(t *testing.T) {
	n := 0
	v, err := NewVerifier(config.Token{HMACSecretKey: "new", HMACPreviousSecretKey: "old"}, Options{Now: func() time.Time { return now }, Previous: func() { n++ }})
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]int{"new": 0, "old": 1, "other": 0} {
		n = 0
		_, _ = v.VerifyConnect(t.Context(), hs256(secret, `{"alg":"HS256"}`, `{}`))
		if n != want {
			t.Errorf("%s: counted %d times", secret, n)
		}
	}
}

type keyPair struct {
	pem     string // PUBLIC KEY
	private crypto.Signer
}

func newPair(t testing.TB, private crypto.Signer) keyPair {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), private}
}

func newPairs(t testing.TB) map[string]keyPair {
	t.Helper()
	out := map[string]keyPair{}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	out["RS"] = newPair(t, rsaKey)
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		out[alg] = newPair(t, key)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out["EdDSA"] = newPair(t, ed)
	return out
}

// TestAlgorithms signs by every algorithm with every key that it takes, and checks
// that exactly the configured family, and curve, is accepted.
func TestAlgorithms(t *testing.T) {
	pairs := newPairs(t)
	all := config.Token{HMACSecretKey: secret, RSAPublicKey: pairs["RS"].pem, EdDSAPublicKey: pairs["EdDSA"].pem}
	for alg, c := range map[string]config.Token{
		"HS256": {HMACSecretKey: secret}, "HS384": {HMACSecretKey: secret}, "HS512": {HMACSecretKey: secret},
		"RS256": {RSAPublicKey: pairs["RS"].pem}, "RS384": {RSAPublicKey: pairs["RS"].pem}, "RS512": {RSAPublicKey: pairs["RS"].pem},
		"ES256": {ECDSAPublicKey: pairs["ES256"].pem}, "ES384": {ECDSAPublicKey: pairs["ES384"].pem}, "ES512": {ECDSAPublicKey: pairs["ES512"].pem},
		"EdDSA": {EdDSAPublicKey: pairs["EdDSA"].pem},
	} {
		var key any = []byte(secret)
		for _, name := range []string{alg, alg[:2]} {
			if p, ok := pairs[name]; ok {
				key = p.private
			}
		}
		signed, err := jwt.NewWithClaims(jwt.GetSigningMethod(alg), jwt.MapClaims{"sub": "42"}).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := verifier(t, c).VerifyConnect(t.Context(), signed); err != nil || got.User != "42" {
			t.Errorf("%s: %v", alg, err)
		}
		mixed := all
		mixed.ECDSAPublicKey = c.ECDSAPublicKey
		if _, err := verifier(t, mixed).VerifyConnect(t.Context(), signed); err != nil {
			t.Errorf("%s among other keys: %v", alg, err)
		}
		for other, p := range pairs {
			if strings.HasPrefix(other, "ES") && other != alg {
				if _, err := verifier(t, config.Token{ECDSAPublicKey: p.pem}).VerifyConnect(t.Context(), signed); !errors.Is(err, ErrInvalid) {
					t.Errorf("%s with the key of %s: %v", alg, other, err)
				}
			}
		}
		if _, err := verifier(t, config.Token{}).VerifyConnect(t.Context(), signed); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s without a key: %v", alg, err)
		}
		skip, err := NewVerifier(config.Token{}, Options{SkipSignature: true, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := skip.VerifyConnect(t.Context(), signed); err != nil || got.User != "42" {
			t.Errorf("%s unverified: %v", alg, err)
		}
	}
	ps, err := jwt.NewWithClaims(jwt.SigningMethodPS256, jwt.MapClaims{}).SignedString(pairs["RS"].private)
	if err != nil {
		t.Fatal(err)
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	all.ECDSAPublicKey = pairs["ES256"].pem
	attacks := map[string]string{"PS256": ps, "none": none}
	for name, p := range pairs { // algorithm confusion: the public key as HMAC secret
		attacks["HS256 by the public key "+name] = hs256(p.pem, `{"alg":"HS256"}`, `{}`)
		attacks["HS256 by the trimmed public key "+name] = hs256(strings.TrimSpace(p.pem), `{"alg":"HS256"}`, `{}`)
	}
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "RS256", "ES256", "EdDSA"} {
		attacks[alg+" with an HMAC signature"] = hs256(secret, `{"alg":"`+alg+`"}`, `{}`)
		attacks[alg+" without a signature"] = hs256(secret, `{"alg":"`+alg+`"}`, `{}`)[:len(hs256(secret, `{"alg":"`+alg+`"}`, `{}`))-43]
	}
	for name, bad := range attacks {
		if _, err := verifier(t, all).VerifyConnect(t.Context(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSkipSignature(t *testing.T) {
	v, err := NewVerifier(config.Token{Issuer: "i"}, Options{SkipSignature: true, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]error{
		`{"iss":"i"}`: nil, `{"iss":"j"}`: ErrInvalid, `{"iss":"i","exp":1}`: ErrExpired, `{"iss":"i","channel":"x"}`: ErrInvalid, `[]`: ErrInvalid,
	} {
		for _, header := range []string{`{"alg":"HS256"}`, `{"alg":"none"}`, `{"alg":"??"}`, `{"x":0}`} {
			if _, err := v.VerifyConnect(t.Context(), hs256("any", header, payload)); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s %s: %v", header, payload, err)
			}
		}
	}
}

func TestKeyErrors(t *testing.T) {
	pairs := newPairs(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, pairs["ES256"].private.Public(), pairs["ES256"].private)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	verifier(t, config.Token{ECDSAPublicKey: certPEM})
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&pairs["RS"].private.(*rsa.PrivateKey).PublicKey)})
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small := newPair(t, smallRSA{n: big.NewInt(0).SetBit(big.NewInt(1), 511, 1)})
	for _, tt := range []struct {
		cfg  config.Token
		want string
	}{
		{config.Token{RSAPublicKey: "x"}, "rsa_public_key: not PEM"},
		{config.Token{RSAPublicKey: string(pkcs1)}, "rsa_public_key: the PEM block"},
		{config.Token{RSAPublicKey: pairs["ES256"].pem}, "rsa_public_key: not an RSA key"},
		{config.Token{RSAPublicKey: small.pem}, "rsa_public_key: 512 bits"},
		{config.Token{RSAPublicKey: "-----BEGIN PUBLIC KEY-----\naGk=\n-----END PUBLIC KEY-----\n"}, "rsa_public_key: "},
		{config.Token{ECDSAPublicKey: pairs["RS"].pem}, "ecdsa_public_key: not an ECDSA key"},
		{config.Token{ECDSAPublicKey: newPair(t, p224).pem}, "ecdsa_public_key: the curve"},
		{config.Token{EdDSAPublicKey: certPEM}, "eddsa_public_key: not an Ed25519 key"},
		{config.Token{Audience: "a", AudienceRegex: "a"}, "audience_regex"},
		{config.Token{Issuer: "a", IssuerRegex: "a"}, "issuer_regex"},
		{config.Token{IssuerRegex: "("}, "issuer_regex"},
		{config.Token{JWKSPublicEndpoint: "ftp://x"}, "jwks_public_endpoint: not an http"},
	} {
		if _, err := NewVerifier(tt.cfg, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

// smallRSA is a public key of a size that the standard library does not generate.
type smallRSA struct {
	crypto.Signer
	n *big.Int
}

func (s smallRSA) Public() crypto.PublicKey { return &rsa.PublicKey{N: s.n, E: 65537} }

func TestSign(t *testing.T) {
	cfg := config.Token{HMACSecretKey: secret, UserIDClaim: "uid", Issuer: "i", Audience: "a"}
	signed, err := Sign(cfg, Claims{User: "42", TTL: time.Hour, Info: json.RawMessage(`{"name":"Ann"}`)}, now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := verifier(t, cfg).VerifyConnect(t.Context(), signed)
	want := ConnectToken{User: "42", ExpireAt: time.Unix(now.Unix()+3600, 0), Info: []byte(`{"name":"Ann"}`), ID: &channel.Token{IssuedAt: now.Unix()}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	signed, err = Sign(config.Token{HMACSecretKey: secret}, Claims{Channel: "$a"}, now)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(signed, ".")[1])
	if err != nil || string(payload) != `{"channel":"$a","iat":2000000000}` {
		t.Errorf("%s %v", payload, err)
	}
	if sub, err := verifier(t, config.Token{HMACSecretKey: secret}).VerifySubscribe(t.Context(), signed); err != nil || sub.Channel != "$a" {
		t.Error(err)
	}
	if _, err := Sign(config.Token{}, Claims{}, now); err == nil {
		t.Error("signed without a secret")
	}
}

// FuzzVerify checks every accepted token by a few straightforward lines: HMAC over
// the first two parts, and the claims as encoding/json sees them. Then it signs
// the payload itself, so that the fuzzer reaches the claims.
func FuzzVerify(f *testing.F) {
	f.Add(`{"sub":"42","exp":2000000001}`, token(`{"sub":"42"}`))
	f.Add(`{"channel":"a","subs":{"a":{"override":{"presence":{"value":true}}}},"expire_at":5}`, hs256(secret, `{"alg":"none"}`, `{}`))
	f.Add(`{"aud":["a"],"iss":"x","nbf":1e3,"b64info":"aGk=","meta":{"a":`+"\n"+`1}}`, "eyJ..")
	v := verifier(f, config.Token{HMACSecretKey: secret})
	f.Fuzz(func(t *testing.T, payload, raw string) {
		for _, tok := range []string{raw, token(payload)} {
			c, err1 := v.VerifyConnect(t.Context(), tok)
			s, err2 := v.VerifySubscribe(t.Context(), tok)
			for _, err := range []error{err1, err2} {
				if err != nil && errors.Is(err, ErrInvalid) == errors.Is(err, ErrExpired) {
					t.Errorf("unclassified error %v", err)
				}
			}
			if err1 == nil && err2 == nil {
				t.Errorf("%q is good for connections and subscriptions", tok)
			}
			if err1 == nil {
				oracle(t, tok, c.User, "", c.ExpireAt)
			}
			if err2 == nil {
				oracle(t, tok, s.User, s.Channel, s.ExpireAt)
			}
		}
	})
}

func oracle(t *testing.T, tok, user, channel string, expireAt time.Time) {
	t.Helper()
	parts := strings.Split(tok, ".")
	if len(parts) != 3 || len(tok) > MaxTokenLength {
		t.Fatalf("accepted %q", tok)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	sum, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !hmac.Equal(sum, mac.Sum(nil)) {
		t.Fatalf("accepted the signature of %q", tok)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(payload, &m); err != nil {
		t.Fatalf("accepted the payload %q", payload)
	}
	if s, _ := m["sub"].(string); s != user {
		t.Errorf("user %q, want %q", user, s)
	}
	if s, _ := m["channel"].(string); s != channel {
		t.Errorf("channel %q, want %q", channel, s)
	}
	if exp, ok := m["exp"].(float64); ok && exp <= float64(now.Unix()) {
		t.Errorf("accepted exp %v", exp)
	}
	if nbf, ok := m["nbf"].(float64); ok && nbf >= float64(now.Unix()) {
		t.Errorf("accepted nbf %v", nbf)
	}
	if _, ok := m["expire_at"]; m["exp"] == nil && (!ok || m["expire_at"] == nil) && !expireAt.IsZero() {
		t.Errorf("expires at %v without a claim", expireAt)
	}
}

// Claims of a token do not keep the whole of it: they live as long as the connection.
func TestClaimsAreCopies(t *testing.T) {
	v := verifier(t, config.Token{HMACSecretKey: secret})
	got, err := v.VerifyConnect(t.Context(), token(`{"info":[1],"meta":[2],"subs":{"a":{"info":[3],"data":[4]}},"x":"`+strings.Repeat("x", 1000)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{got.Info, got.Meta, got.Subs["a"].Info, got.Subs["a"].Data} {
		if cap(p) > 64 {
			t.Errorf("%s has room for %d bytes", p, cap(p))
		}
	}
}

// TestVerifyBudget: a connection token costs little beside the connection.
func TestVerifyBudget(t *testing.T) {
	v := verifier(t, config.Token{HMACSecretKey: secret})
	tok := token(`{"sub":"42","exp":2000000001,"info":{"name":"Ann"}}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := v.VerifyConnect(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
	}); n > 26 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkVerifyConnect(b *testing.B) {
	v := verifier(b, config.Token{HMACSecretKey: secret})
	tok := token(`{"sub":"42","exp":2000000001,"info":{"name":"Ann"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.VerifyConnect(b.Context(), tok); err != nil {
			b.Fatal(err)
		}
	}
}

// Only as many costly signatures are verified at a time as there are places; other tokens do not
// wait for them.
func TestSeats(t *testing.T) {
	key := newPairs(t)["ES512"]
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES512, jwt.MapClaims{"sub": "42"}).SignedString(key.private)
	if err != nil {
		t.Fatal(err)
	}
	quick := hs256(secret, `{"alg":"HS256"}`, `{"sub":"42"}`)
	v := verifier(t, config.Token{HMACSecretKey: secret, ECDSAPublicKey: key.pem})
	for token, want := range map[string]bool{signed: true, quick: false, "": false, "!.": false} {
		if got := v.Costly(token); got != want {
			t.Errorf("%q is costly: %v", token, got)
		}
	}
	if verifier(t, config.Token{HMACSecretKey: secret}).Costly(signed) {
		t.Error("costly without a key to verify it with")
	}
	for range cap(costly) {
		costly <- struct{}{}
	}
	if _, err := v.VerifyConnect(t.Context(), quick); err != nil {
		t.Error(err)
	}
	verified := make(chan error)
	go func() {
		_, err := v.VerifyConnect(t.Context(), signed)
		verified <- err
	}()
	select {
	case err := <-verified:
		t.Errorf("verified without a place: %v", err)
	case <-costly:
	}
	if err := <-verified; err != nil {
		t.Error(err)
	}
	for range cap(costly) - 1 {
		<-costly
	}
	if len(costly) != 0 {
		t.Errorf("%d places are still taken", len(costly))
	}
}
