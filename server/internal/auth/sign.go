package auth

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Claims of a token to sign.
type Claims struct {
	// User is empty for an anonymous user.
	User    string
	Channel string
	// Channels are subscribed by the server; only in connection tokens.
	Channels []string
	// TTL is rounded down to seconds; 0 or less: the token does not expire.
	TTL time.Duration
	// Info is JSON: info of the connection, or of the channel.
	Info json.RawMessage
}

// Sign returns a token that is signed with HS256, with the issuer and the audience that the section requires. It fails
// if the section has no secret.
func Sign(cfg config.Token, c Claims, now time.Time) (string, error) {
	if cfg.HMACSecretKey == "" {
		return "", errors.New("hmac_secret_key: is required to sign tokens")
	}
	m := jwt.MapClaims{"iat": now.Unix()}
	set := func(name, value string) {
		if value != "" && name != "" {
			m[name] = value
		}
	}
	set("sub", c.User)
	set(cfg.UserIDClaim, c.User)
	set("channel", c.Channel)
	set("iss", cfg.Issuer)
	set("aud", cfg.Audience)
	if c.TTL > 0 {
		m["exp"] = now.Add(c.TTL).Unix()
	}
	if len(c.Channels) > 0 {
		m["channels"] = c.Channels
	}
	if c.Info != nil {
		m["info"] = c.Info
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, m).SignedString([]byte(cfg.HMACSecretKey))
}
