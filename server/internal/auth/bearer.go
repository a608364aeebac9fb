package auth

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// APIVerifier verifies tokens of callers of the server API. It is immutable.
type APIVerifier struct {
	v     Verifier
	scope string
}

// NewAPIVerifier returns a verifier. Errors name the key below the section.
func NewAPIVerifier(cfg config.APIJWKS, opts Options) (*APIVerifier, error) {
	a := &APIVerifier{scope: cfg.Scope, v: Verifier{
		section: opts.Section, issuer: cfg.Issuer, audience: cfg.Audience, now: opts.Now,
	}}
	if a.v.now == nil {
		a.v.now = time.Now
	}
	err := a.v.addProvider(provider{key: "endpoint"}, cfg.Endpoint, "tls", cfg.TLS, opts.JWKS)
	return a, err
}

// Verify verifies signature, audience, issuer, scope and times. The error wraps ErrExpired or ErrInvalid. It waits as
// VerifyConnect does.
func (a *APIVerifier) Verify(ctx context.Context, token string) error {
	c, err := a.v.verify(ctx, token)
	if err != nil {
		return err
	}
	if a.scope != "" && !slices.Contains(c.scope(), a.scope) {
		return a.v.invalid("scope", "claim scope does not hold the configured scope")
	}
	if c.err != nil {
		return c.err
	}
	return a.v.checkTime(c)
}

// Prefetch begins to fetch the JWKS.
func (a *APIVerifier) Prefetch() { a.v.Prefetch() }

// scope returns the claim scope, which is words or a list.
func (c *claims) scope() (scopes []string) {
	raw, ok := c.get("scope")
	if !ok {
		return nil
	}
	if raw[0] == '"' {
		return strings.Fields(c.string("scope"))
	}
	if json.Unmarshal(raw, &scopes) != nil {
		c.wrong("scope")
	}
	return scopes
}
