package app

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
)

// CheckToken verifies a token as a server with this configuration would, and
// describes it (config.md 2.8). The error tells the reason, and what the token
// says of itself.
func CheckToken(cfg *config.Config, token string, subscription bool) (string, error) {
	section := cfg.Client.Token
	if subscription && cfg.Client.SubscriptionToken.Enabled {
		section = cfg.Client.SubscriptionToken.Token
	}
	v, err := auth.NewVerifier(section, authOptions(cfg))
	if err != nil {
		return "", err
	}
	what, err := verify(v, token, subscription)
	header, payload := peek(token)
	if err != nil {
		return "", fmt.Errorf("%w\nheader:  %s\npayload: %s", err, header, payload)
	}
	return what + "\npayload: " + payload, nil
}

func verify(v *auth.Verifier, token string, subscription bool) (string, error) {
	if subscription {
		t, err := v.VerifySubscribe(token)
		return fmt.Sprintf("valid subscription token for %s and channel %q, %s", who(t.User), t.Channel, until(t.ExpireAt)), err
	}
	t, err := v.VerifyConnect(token)
	return fmt.Sprintf("valid connection token for %s, %s", who(t.User), until(t.ExpireAt)), err
}

// peek returns header and payload of a token, which may be no token at all.
func peek(token string) (header, payload string) {
	part := func(text string) string {
		data, err := base64.RawURLEncoding.DecodeString(text)
		var out bytes.Buffer
		if err != nil || json.Compact(&out, data) != nil {
			return "not base64url of JSON"
		}
		return out.String()
	}
	header, rest, _ := strings.Cut(token, ".")
	payload, _, _ = strings.Cut(rest, ".")
	return part(header), part(payload)
}

func who(user string) string {
	if user == "" {
		return "anonymous user"
	}
	return fmt.Sprintf("user %q", user)
}

func until(expireAt time.Time) string {
	if expireAt.IsZero() {
		return "without expiration"
	}
	return "expires " + expireAt.UTC().Format(time.RFC3339)
}
