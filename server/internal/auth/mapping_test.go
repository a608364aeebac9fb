package auth

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
)

// mappings have every way to write the path of a claim.
var mappings = config.Token{
	HMACSecretKey: secret,
	MetaFromClaim: map[string]string{
		"tenant": "tenant", "realm_access.roles": "roles", `https://example\.com/plan`: "plan", `a\\b.c`: "_c1",
	},
	LabelsFromClaim: map[string]string{"tenant": "tenant", "org.id": "org", "org": "whole"},
}

func TestMetaAndLabels(t *testing.T) {
	plain := config.Token{HMACSecretKey: secret}
	for _, tt := range []struct {
		cfg           config.Token
		payload, meta string
		labels        map[string]string
	}{
		{plain, `{}`, ``, nil},
		{plain, `{"meta":{"t": 1},"tenant":"x"}`, `{"t": 1}`, nil},
		{plain, `{"labels":{"a":"1","n":2.50,"b":true,"o":{"x": [1, 2]},"z":null}}`, ``, map[string]string{"a": "1", "n": "2.50", "b": "true", "o": `{"x":[1,2]}`}},
		{plain, `{"labels":{}}`, ``, map[string]string{}},
		{plain, `{"labels":null}`, ``, nil},

		{mappings, `{}`, ``, nil},
		{mappings, `{"meta":[1]}`, `[1]`, nil}, // nothing is added to it
		{mappings, `{"tenant":"x"}`, `{"tenant":"x"}`, map[string]string{"tenant": "x"}},
		{mappings, `{"tenant":null,"Tenant":1}`, ``, nil},
		{mappings, `{"tenant":"x","meta":{"tenant":"y","z": "<é>"}}`, `{"tenant":"x","z":"<é>"}`, map[string]string{"tenant": "x"}},
		{mappings, `{"tenant":7,"labels":{"tenant":"y","z":"1"}}`, `{"tenant":7}`, map[string]string{"tenant": "7", "z": "1"}},
		{mappings, `{"realm_access":{"roles":["a",` + "\n" + `"b"]}}`, `{"roles":["a","b"]}`, nil},
		{mappings, `{"realm_access":{"roles":null}}`, ``, nil},
		{mappings, `{"realm_access":["roles"]}`, ``, nil},
		{mappings, `{"realm_access.roles":[1]}`, ``, nil},
		{mappings, `{"https://example.com/plan":"pro","a\\b":{"c":{}}}`, `{"_c1":{},"plan":"pro"}`, nil},
		{mappings, `{"org":{"id":"o1"}}`, ``, map[string]string{"org": "o1", "whole": `{"id":"o1"}`}},
	} {
		got, err := verifier(t, tt.cfg).VerifyConnect(t.Context(), token(tt.payload))
		if err != nil || string(got.Meta) != tt.meta || cmp.Diff(got.Labels, tt.labels) != "" {
			t.Errorf("%s: %s %q %v, want %s %q", tt.payload, got.Meta, got.Labels, err, tt.meta, tt.labels)
		}
	}
	for payload, want := range map[string]string{
		`{"labels":["a"]}`:           "claim labels has a wrong type or value",
		`{"labels":"a"}`:             "claim labels has a wrong type or value",
		`{"tenant":"x","meta":[1]}`:  "claim meta has a wrong type or value",
		`{"tenant":"x","meta":"{}"}`: "claim meta has a wrong type or value",
	} {
		_, err := verifier(t, mappings).VerifyConnect(t.Context(), token(payload))
		if _, text := refusal.Explain(errors.Join(err)); !errors.Is(err, ErrInvalid) || text != want {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// The claims of a provider add to those of the section, and win.
func TestMetaAndLabelsOfProviders(t *testing.T) { synctest.Test(t, testMetaAndLabelsOfProviders) }

func testMetaAndLabelsOfProviders(t *testing.T) {
	p := newIDP(t, "one", "two")
	cfg := config.Token{
		MetaFromClaim:   map[string]string{"tenant": "tenant", "sub": "who"},
		LabelsFromClaim: map[string]string{"tenant": "tenant"},
	}
	cfg.JWKS.Enabled = true
	cfg.JWKS.Providers = []config.JWKSProvider{
		{Name: "one", Enabled: true, Issuer: "i1", Endpoint: idpURL + "/sets/one",
			MetaFromClaim: map[string]string{"org": "tenant"}, LabelsFromClaim: map[string]string{"org": "tenant", "plan": "plan"}},
		{Name: "two", Enabled: true, Issuer: "i2", Endpoint: idpURL + "/sets/two"},
	}
	v, err := NewVerifier(cfg, Options{JWKS: newSets(t, p), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	for kid, want := range map[string]ConnectToken{
		"one": {User: "u", Meta: []byte(`{"tenant":"o","who":"u"}`), Labels: map[string]string{"tenant": "o", "plan": "pro"}},
		"two": {User: "u", Meta: []byte(`{"tenant":"t","who":"u"}`), Labels: map[string]string{"tenant": "t"}},
	} {
		issuer := map[string]string{"one": "i1", "two": "i2"}[kid]
		got, err := v.VerifyConnect(t.Context(), p.sign(t, kid, jwt.MapClaims{"iss": issuer, "sub": "u", "tenant": "t", "org": "o", "plan": "pro"}))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", kid, err, diff)
		}
	}
}

// A mapping that cannot be meant is an error that names the key.
func TestBadMappings(t *testing.T) {
	for path, name := range map[string]string{
		"a": "b-c", "": "b", "a.": "b", ".a": "b", "a..b": "c", `a\`: "b", "b": "", "c": "1a",
	} {
		cfg := config.Token{HMACSecretKey: secret, MetaFromClaim: map[string]string{path: name}}
		if _, err := NewVerifier(cfg, Options{}); err == nil || !strings.HasPrefix(err.Error(), "meta_from_claim: ") {
			t.Errorf("%q to %q: %v", path, name, err)
		}
		cfg = config.Token{HMACSecretKey: secret, LabelsFromClaim: map[string]string{path: name}}
		if _, err := NewVerifier(cfg, Options{}); err == nil || !strings.HasPrefix(err.Error(), "labels_from_claim: ") {
			t.Errorf("%q to %q: %v", path, name, err)
		}
		cfg = config.Token{}
		cfg.JWKS.Enabled = true
		cfg.JWKS.Providers = []config.JWKSProvider{{Name: "one", Enabled: true, Issuer: "i", Endpoint: "http://x", LabelsFromClaim: map[string]string{path: name}}}
		if _, err := NewVerifier(cfg, Options{}); err == nil || !strings.HasPrefix(err.Error(), "jwks.providers[0](one).labels_from_claim: ") {
			t.Errorf("%q to %q: %v", path, name, err)
		}
	}
	cfg := config.Token{HMACSecretKey: secret, MetaFromClaim: map[string]string{"a": "x", "b": "x"}}
	if _, err := NewVerifier(cfg, Options{}); err == nil || err.Error() != `meta_from_claim: the claims "a" and "b" both become x` {
		t.Error(err)
	}
}

// A path that is put together of names has these names.
func FuzzSplitPath(f *testing.F) {
	f.Add("a", `b.c\`, "é")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		escape := strings.NewReplacer(`\`, `\\`, `.`, `\.`)
		names := []string{a, b, c}
		path := escape.Replace(a) + "." + escape.Replace(b) + "." + escape.Replace(c)
		if got := splitPath(path); cmp.Diff(got, names) != "" {
			t.Errorf("%q: %q, want %q", path, got, names)
		}
	})
}
