package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

const tokenSecret = "secret of tokens"

var discard = slog.New(slog.DiscardHandler)

func tokenConfig() *config.Config {
	cfg := config.DefaultConfig()
	cfg.Client.Token.HMACSecretKey = tokenSecret
	return cfg
}

// tokenField is the member of a command that has a token.
func tokenField(claims jwt.MapClaims) string {
	return `"token":"` + must(jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(tokenSecret))) + `"`
}

// must returns the value of a call that cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The meta of a connection token belongs to the client, and a refresh by a token with
// meta replaces it.
func TestTokenMeta(t *testing.T) {
	t.Parallel()
	var inForce atomic.Pointer[Policy]
	handlers := Handlers(inForce.Load)
	handlers.RPC = func(_ context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
		return fmt.Appendf(nil, "%q", c.Meta()), nil
	}
	node, err := gyro.New(gyro.Config{Handlers: handlers, Logger: discard, InlineHandlers: true})
	if err != nil {
		t.Fatal(err)
	}
	inForce.Store(must(NewPolicy(tokenConfig(), Options{Node: node, Log: discard})))
	if err := node.Run(); err != nil {
		t.Fatal(err)
	}
	defer node.Shutdown(context.Background())
	c := wstest.Pipe(t, node)
	c.Connect(tokenField(jwt.MapClaims{"sub": "u", "meta": map[string]any{"plan": "free"}}))
	for _, step := range []struct {
		refresh jwt.MapClaims
		want    string
	}{
		{nil, `{"plan":"free"}`},
		{jwt.MapClaims{"sub": "u", "exp": time.Now().Add(time.Hour).Unix()}, `{"plan":"free"}`},
		{jwt.MapClaims{"sub": "u", "meta": nil}, `{"plan":"free"}`},
		{jwt.MapClaims{"sub": "u", "meta": []int{1}}, `[1]`},
	} {
		if step.refresh != nil {
			c.Do(`"refresh":{` + tokenField(step.refresh) + `}`)
		}
		if got := string(c.Do(`"rpc":{}`).RPC.Data); got != fmt.Sprintf("%q", step.want) {
			t.Errorf("after %v: meta %s, want %s", step.refresh, got, step.want)
		}
	}
}

// A loop does not verify a signature that takes long.
func TestCostlyTokensAreNotVerifiedInline(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	cfg := tokenConfig()
	public := must(x509.MarshalPKIXPublicKey(&key.PublicKey))
	cfg.Client.Token.ECDSAPublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	policy := must(NewPolicy(cfg, Options{Log: discard}))
	costly := must(jwt.NewWithClaims(jwt.SigningMethodES512, jwt.MapClaims{"sub": "u"}).SignedString(key))
	quick := must(jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "u"}).SignedString([]byte(tokenSecret)))
	for _, tt := range []struct {
		token  string
		inline bool
		want   error
	}{{costly, true, gyro.ErrWouldBlock}, {costly, false, nil}, {quick, true, nil}} {
		_, err := policy.connecting(t.Context(), gyro.ConnectEvent{Token: tt.token, Inline: tt.inline})
		if !errors.Is(err, tt.want) {
			t.Errorf("connecting inline %v: %v, want %v", tt.inline, err, tt.want)
		}
		e := gyro.SubscribeEvent{Channel: "ch", Token: tt.token, Inline: tt.inline}
		if tt.want != nil {
			if err := policy.subscribeByToken(t.Context(), nil, e, new(gyro.SubscribeOptions)); !errors.Is(err, tt.want) {
				t.Errorf("subscribing: %v, want %v", err, tt.want)
			}
		}
	}
}
