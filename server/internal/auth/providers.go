package auth

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/config"
)

type provider struct {
	// key of its URL, below the section.
	key string
	// Tokens must have this issuer and this audience; empty for any.
	issuer, audience string
	ofMeta, ofLabels mapping
	template         *jwks.Template
	endpoint         *jwks.Endpoint
}

// addProviders adds the providers of a section. Errors name the key below it.
func (v *Verifier) addProviders(cfg *config.Token, cache *jwks.Cache) error {
	if at := cfg.JWKSPublicEndpoint; at != "" {
		const key = "jwks_public_endpoint"
		if err := v.addProvider(provider{key: key}, at, "", config.TLS{}, cache); err != nil {
			return err
		}
		if cfg.SkipJWKSSafetyCheck {
			return nil
		}
		if err := v.providers[0].template.CheckSafe(v.issuerRegex, v.audienceRegex); err != nil {
			return fmt.Errorf("%s: %w (docs/tokens.md#jwks)", key, err)
		}
		return nil
	}
	if !cfg.JWKS.Enabled {
		return nil
	}
	for i := range cfg.JWKS.Providers {
		p := &cfg.JWKS.Providers[i]
		if !p.Enabled {
			continue
		}
		key := config.Element("jwks.providers", i, p.Name)
		one := provider{key: key + ".endpoint", issuer: p.Issuer, audience: p.Audience}
		var err error
		if one.ofMeta, err = newMapping(key+".meta_from_claim", p.MetaFromClaim); err != nil {
			return err
		}
		if one.ofLabels, err = newMapping(key+".labels_from_claim", p.LabelsFromClaim); err != nil {
			return err
		}
		if err := v.addProvider(one, p.Endpoint, key+".tls", p.TLS, cache); err != nil {
			return err
		}
	}
	if len(v.providers) == 0 {
		return errors.New("jwks.providers: none of them is enabled")
	}
	return nil
}

// addProvider adds a provider. tlsKey is the key of its TLS object below the section.
func (v *Verifier) addProvider(p provider, at, tlsKey string, secure config.TLS, cache *jwks.Cache) (err error) {
	if p.template, err = jwks.ParseTemplate(at); err != nil {
		return fmt.Errorf("%s: %w", p.key, err)
	}
	if p.key != "jwks_public_endpoint" && !p.template.Static() {
		return fmt.Errorf("%s: has a placeholder, which is possible in jwks_public_endpoint alone", p.key)
	}
	if cache == nil {
		cache = jwks.NewCache(nil)
	}
	if p.endpoint, err = cache.Endpoint(v.section+"."+p.key, secure); err != nil {
		return fmt.Errorf("%s.%w", tlsKey, err)
	}
	v.providers = append(v.providers, p)
	return nil
}

// Prefetch begins to fetch the configured JWKS, so that the first clients need not wait, and failures are logged at
// once.
func (v *Verifier) Prefetch() {
	if v.skipSignature {
		return
	}
	for i := range v.providers {
		p := &v.providers[i]
		if at, err := p.template.URL(nil); err == nil && p.template.Static() {
			p.endpoint.Prefetch(at)
		}
	}
}

func (v *Verifier) provided(ctx context.Context, t *parsed, issuer string, audience []string) ([]any, string, error) {
	p := v.provider(issuer, audience)
	if p == nil {
		return nil, "", v.invalid("jwks.providers", "none of them has the token's issuer, and its audience if the provider has one")
	}
	if strings.HasPrefix(t.method.Alg(), "HS") {
		return nil, "", v.invalid(p.key, "it is signed by HMAC, and a JWKS has no keys for that")
	}
	if t.kid == "" {
		return nil, "", v.invalid(p.key, "its header has no kid, which names the key in the JWKS")
	}
	at, err := p.template.URL(v.groups(issuer, audience))
	if err != nil {
		return nil, "", v.invalid(p.key, err.Error())
	}
	key, err := p.endpoint.Key(ctx, at, t.kid, t.method.Alg())
	if err != nil {
		return nil, "", v.invalid(p.key, err.Error())
	}
	return []any{key}, p.key, nil
}

// provider returns the provider with the issuer and one of the audiences, else with the issuer alone.
func (v *Verifier) provider(issuer string, audience []string) (found *provider) {
	for i := range v.providers {
		switch p := &v.providers[i]; {
		case p.issuer != "" && p.issuer != issuer:
		case p.audience == "":
			found = p
		case slices.Contains(audience, p.audience):
			return p
		}
	}
	return found
}

// groups returns the named groups of issuer_regex, and of audience_regex for the first matching audience.
func (v *Verifier) groups(issuer string, audience []string) map[string]string {
	values := make(map[string]string)
	take := func(re *regexp.Regexp, text string) bool {
		m := re.FindStringSubmatchIndex(text)
		for i, name := range re.SubexpNames() {
			if name != "" && m != nil && m[2*i] >= 0 {
				values[name] = text[m[2*i]:m[2*i+1]]
			}
		}
		return m != nil
	}
	if v.issuerRegex != nil {
		take(v.issuerRegex, issuer)
	}
	for _, a := range audience {
		if v.audienceRegex != nil && take(v.audienceRegex, a) {
			break
		}
	}
	return values
}
