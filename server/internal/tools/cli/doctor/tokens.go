package doctor

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/config"
)

// A secret of HS256 should have as many bytes as its digest.
const leastSecret = 32

func (d *doctor) tokens(ctx context.Context) {
	const area = "tokens"
	c := &d.Config.Client
	verified := d.token(ctx, "client.token", &c.Token)
	if c.SubscriptionToken.Enabled {
		d.token(ctx, "client.subscription_token", &c.SubscriptionToken.Token)
	}
	switch {
	case verified:
		d.report(area, OK, "", "connection tokens can be verified")
	case c.Proxy.Connect.Enabled:
		d.report(area, OK, "", "the backend decides about connections")
	case c.Insecure || c.AllowAnonymousConnect:
		d.report(area, Warn, "set client.token.hmac_secret_key if clients have users", "no token can be verified: all clients are anonymous")
	default:
		d.report(area, Fail, "set client.token.hmac_secret_key, or enable client.proxy.connect", "no client can connect: no token can be verified, anonymous clients are not allowed, and no backend is asked")
	}
	d.backendTokens(ctx, "http_api.jwks", &d.Config.HTTPAPI.JWKS)
	d.backendTokens(ctx, "grpc_api.jwks", &d.Config.GRPCAPI.JWKS)
}

func (d *doctor) backendTokens(ctx context.Context, section string, of *config.APIJWKS) {
	if of.Enabled {
		d.keySet(ctx, section+".endpoint", of.Endpoint, of.TLS, section+".tls")
	}
}

func (d *doctor) token(ctx context.Context, section string, t *config.Token) bool {
	if n := len(t.HMACSecretKey); n > 0 && n < leastSecret {
		d.report("tokens", Warn, "let gyro genconfig make one, and set "+section+".hmac_secret_key", "%s.hmac_secret_key has %d bytes: one that is shorter than %d can be guessed from a token", section, n, leastSecret)
	}
	if t.JWKS.Enabled {
		for i := range t.JWKS.Providers {
			if p := &t.JWKS.Providers[i]; p.Enabled {
				key := config.Element(section+".jwks.providers", i, p.Name)
				d.keySet(ctx, key+".endpoint", p.Endpoint, p.TLS, key+".tls")
			}
		}
		return true
	}
	u := t.JWKSPublicEndpoint
	if u != "" && !strings.Contains(u, "{{") {
		d.keySet(ctx, section+".jwks_public_endpoint", u, config.TLS{}, "")
	}
	return u != "" || t.HMACSecretKey != "" || t.RSAPublicKey != "" || t.ECDSAPublicKey != "" || t.EdDSAPublicKey != ""
}

func (d *doctor) keySet(ctx context.Context, key, at string, secure config.TLS, section string) {
	const area = "tokens"
	cache := jwks.NewCache(slog.New(slog.DiscardHandler))
	defer cache.Close()
	e, err := cache.Endpoint(key, secure)
	if err != nil {
		return // the check of the configuration has told
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	begun := time.Now()
	keys, skipped, err := e.Probe(ctx, at)
	if took := since(begun); err == nil && took > jwks.Timeout {
		d.report(area, Warn, "look at the identity provider and the network", "%s: its keys came within %s, the server waits %s for them", key, took, jwks.Timeout)
	}
	switch {
	case err != nil:
		d.report(area, Fail, correct(err, key, section), "%s: its keys cannot be fetched: %v", key, err)
	case skipped != nil:
		d.report(area, Warn, "nothing, unless tokens are signed by them", "%s: %d keys can be used, some cannot: %v", key, keys, skipped)
	default:
		d.report(area, OK, "", "%s: %d keys", key, keys)
	}
}
