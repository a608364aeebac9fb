package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

func tokenSection(cfg *config.Config, sub bool) config.Token {
	if sub && cfg.Client.SubscriptionToken.Enabled {
		return cfg.Client.SubscriptionToken.Token
	}
	return cfg.Client.Token
}

func tokenCommand(name string, sub bool) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: "Generate a sample connection token", Args: cobra.NoArgs}
	file := configFlag(cmd)
	user := cmd.Flags().StringP("user", "u", "", "user ID")
	ttl := cmd.Flags().Int64P("ttl", "t", 7*24*3600, "seconds until the token expires; 0 or less for no expiration")
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print just the token")
	print := printer(cmd)
	channel := new(string)
	if sub {
		cmd.Short = "Generate a sample subscription token"
		channel = cmd.Flags().StringP("channel", "s", "", "channel")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if sub && *channel == "" {
			return cli.Usage("channel is required")
		}
		cfg, _, err := loadValid(cmd, *file)
		if err != nil {
			return err
		}
		lifetime := time.Duration(*ttl) * time.Second
		now := time.Now()
		made := described{User: *user, Channel: *channel}
		if made.Token, err = auth.Sign(tokenSection(cfg, sub), auth.Claims{User: *user, Channel: *channel, TTL: lifetime}, now); err != nil {
			return err
		}
		if lifetime > 0 {
			made.ExpireAt = now.Add(lifetime).Unix()
		}
		text := fmt.Sprintf("HMAC SHA-256 JWT for %s%s:\n%s\n", subject(*user, *channel), expiry(lifetime), made.Token)
		if *quiet {
			text = made.Token
		}
		return print(cmd, text, made)
	}
	return cmd
}

// described is a new token, or the claims of a valid one.
type described struct {
	Token    string          `json:"token,omitempty"`
	User     string          `json:"user"`
	Channel  string          `json:"channel,omitempty"`
	ExpireAt int64           `json:"expire_at,omitempty"` // Unix time in seconds
	Payload  json.RawMessage `json:"payload,omitempty"`
}

func subject(user, channel string) string {
	text := fmt.Sprintf("user %q", user)
	if user == "" {
		text = "anonymous user"
	}
	if channel != "" {
		text += fmt.Sprintf(" and channel %q", channel)
	}
	return text
}

func expiry(ttl time.Duration) string {
	if ttl <= 0 {
		return " without expiration"
	}
	return " with expiration TTL " + ttl.String()
}

func checkTokenCommand(name string, sub bool) *cobra.Command {
	cmd := &cobra.Command{Use: name + " TOKEN", Short: "Verify a connection token against the configuration", Args: cobra.ExactArgs(1)}
	if sub {
		cmd.Short = "Verify a subscription token against the configuration"
	}
	file := configFlag(cmd)
	print := printer(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, _, err := loadValid(cmd, *file)
		if err != nil {
			return err
		}
		text, says, err := checkToken(cmd.Context(), cfg, args[0], sub)
		if err != nil {
			return err
		}
		return print(cmd, text+"\n", says)
	}
	return cmd
}

// checkToken verifies a token as a server with this configuration would, and describes it as text and as JSON. The error
// has the reason, and the header and the payload of the token.
func checkToken(ctx context.Context, cfg *config.Config, token string, sub bool) (text string, says described, err error) {
	sets := jwks.NewCache(slog.New(slog.DiscardHandler))
	defer sets.Close()
	v, err := auth.NewVerifier(tokenSection(cfg, sub), auth.Options{SkipSignature: cfg.Client.SkipTokenSignature, JWKS: sets})
	if err != nil {
		return "", says, err
	}
	kind := "connection"
	var expireAt time.Time
	if sub {
		kind = "subscription"
		var t auth.SubscribeToken
		t, err = v.VerifySubscribe(ctx, token)
		says.User, says.Channel, expireAt = t.User, t.Channel, t.ExpireAt
	} else {
		var t auth.ConnectToken
		t, err = v.VerifyConnect(ctx, token)
		says.User, expireAt = t.User, t.ExpireAt
	}
	header, payload := peek(token)
	if err != nil {
		return "", says, fmt.Errorf("%w\nheader:  %s\npayload: %s", err, header, payload)
	}
	if !expireAt.IsZero() {
		says.ExpireAt = expireAt.Unix()
	}
	says.Payload = json.RawMessage(payload)
	return fmt.Sprintf("valid %s token for %s, %s\npayload: %s", kind, subject(says.User, says.Channel), until(expireAt), payload), says, nil
}

// peek returns the header and the payload of a token as JSON, or a text in place of a malformed one.
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

func until(expireAt time.Time) string {
	if expireAt.IsZero() {
		return "without expiration"
	}
	return "expires " + expireAt.UTC().Format(time.RFC3339)
}
