package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

// Changes are the changed keys of a reload, as messages name them.
type Changes struct {
	// Applied are in force.
	Applied []string
	// Restart need a restart.
	Restart []string
}

// Reloaded returns the configuration after a reload of next, which is valid. c is the configuration at start, now the
// one in force: the result has the reloadable values of next, and all others of c. The error says why the result is not
// valid.
func (c *Config) Reloaded(now, next *Config) (*Config, Changes, error) {
	merged := *now
	var changes Changes
	changes.Applied, changes.Restart = schema.Reload(&merged, next)
	// A limit has an effect only if the server limited connections at start.
	const limitKey = "client.connection_limit"
	if limit := &merged.Client.ConnectionLimit; c.Client.ConnectionLimit <= 0 && c.Client.ConnectionRateLimit <= 0 && *limit > 0 {
		*limit = c.Client.ConnectionLimit
		changes.Applied = slices.DeleteFunc(changes.Applied, func(k string) bool { return k == limitKey })
		changes.Restart = append(changes.Restart, limitKey)
	}
	if err := merged.Validate(); err != nil {
		if len(changes.Restart) > 0 {
			err = fmt.Errorf("%w (keys that cannot change without a restart: %s)", err, strings.Join(changes.Restart, ", "))
		}
		return nil, Changes{}, err
	}
	return &merged, changes, nil
}

// LostSecret is a secret whose tokens a reload makes invalid.
type LostSecret struct{ Key, Text string }

// hmac is the secret in effect; may be empty.
func (t *Token) hmac() string {
	if t.JWKSPublicEndpoint != "" || t.JWKS.Enabled {
		return ""
	}
	return t.HMACSecretKey
}

// LostSecrets returns the HMAC secrets of c whose tokens next does not accept. Clients with such tokens cannot connect,
// nor stay connected when they refresh.
func (c *Config) LostSecrets(next *Config, at time.Time) (lost []LostSecret) {
	sections := []struct {
		name          string
		before, after *Token
	}{{"client.token", &c.Client.Token, &next.Client.Token}}
	if c.Client.SubscriptionToken.Enabled && next.Client.SubscriptionToken.Enabled {
		sections = append(sections, struct {
			name          string
			before, after *Token
		}{"client.subscription_token", &c.Client.SubscriptionToken.Token, &next.Client.SubscriptionToken.Token})
	}
	for _, s := range sections {
		key, secret, now := s.name+".hmac_secret_key", s.before.hmac(), s.after.hmac()
		switch after := s.after; {
		case secret == "" || now == secret:
		case after.HMACSecretKey != "" && now == "":
			lost = append(lost, LostSecret{key, "the section has a JWKS now, so no token that is signed with HMAC is valid"})
		case now == "":
			lost = append(lost, LostSecret{key, "it is empty now, so no token that is signed with HMAC is valid"})
		case after.HMACPreviousSecretKey != secret:
			lost = append(lost, LostSecret{key, "it was replaced, and " + s.name + ".hmac_previous_secret_key is not the old one, so no older token is valid"})
		case after.HMACPreviousValidUntil != 0 && after.HMACPreviousValidUntil < at.Unix():
			lost = append(lost, LostSecret{key, "it was replaced, and " + s.name + ".hmac_previous_secret_key_valid_until is past, so no older token is valid"})
		}
	}
	return lost
}
