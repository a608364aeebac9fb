package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestReloadFigures: what came of a reload is a metric, and so are the tokens that need the previous secret.
func TestReloadFigures(t *testing.T) {
	t.Parallel()
	next := func(edit func(*config.Config)) *config.Config {
		return testConfig(func(cfg *config.Config) {
			cfg.Prometheus.Enabled = true
			if edit != nil {
				edit(cfg)
			}
		})
	}
	s := startServer(t, func(cfg *config.Config) { cfg.Prometheus.Enabled = true })
	s.expected = "configuration is not reloaded"
	var cfg *config.Config
	var failure error
	s.app.load = func() (*config.Config, config.Warnings, error) { return cfg, config.Warnings{}, failure }
	has := func(lines ...string) {
		t.Helper()
		_, text := get(t, s.url("/metrics"))
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("%s is not in the metrics", line)
			}
		}
	}
	has("gyro_config_last_reload_successful 1\n", "gyro_config_last_reload_success_timestamp_seconds 1.", "gyro_log_dropped_lines_total 0\n", "gyro_token_verified_by_previous_key_total 0\n")
	failure = errors.New("config.json: it is no JSON")
	if _, err := s.app.Reread(); err == nil {
		t.Error("a wrong file is taken over")
	}
	has("gyro_config_last_reload_successful 0\n")
	failure, cfg = nil, next(func(cfg *config.Config) {
		cfg.Client.Token.HMACSecretKey, cfg.Client.Token.HMACPreviousSecretKey = "the-next-secret-of-32-bytes-or-more", tokenSecret
	})
	if _, err := s.app.Reread(); err != nil {
		t.Fatal(err)
	}
	s.connect("u") // with a token of the old secret
	has("gyro_config_last_reload_successful 1\n", "gyro_token_verified_by_previous_key_total 1\n")
	s.dial(nil).Connect(`"token":"` + s.sign(jwt.SigningMethodHS256, []byte("the-next-secret-of-32-bytes-or-more"), jwt.MapClaims{"sub": "u"}) + `"`)
	has("gyro_token_verified_by_previous_key_total 1\n")
	if strings.Contains(s.logged(), "disconnected for good") {
		t.Error("a rotation is taken for a loss")
	}
}

// TestReloadLosesTokens: a reload after which no client can come back is a warning with the key, in the log and for operators.
func TestReloadLosesTokens(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*config.Token){
		"it is empty now": func(t *config.Token) { t.HMACSecretKey = "" },
		"client.token.hmac_previous_secret_key is not the old one": func(t *config.Token) { t.HMACSecretKey = "the-next-secret-of-32-bytes-or-more" },
	} {
		s := startServer(t, nil)
		if err := s.app.Reload(testConfig(func(cfg *config.Config) { edit(&cfg.Client.Token) })); err != nil {
			t.Fatal(err)
		}
		s.awaitLog(`"level":"warn","message":"tokens of the old secret are not valid after the reload: clients with such tokens are disconnected, and do not reconnect","key":"client.token.hmac_secret_key","reason":"`)
		s.awaitLog(want)
	}
}

// TestWhoIsRefused: the line about a refused token has the address, and the user, which is marked unless the signature is right. What a
// client writes there cannot make lines of its own.
func TestWhoIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	forged := s.sign(jwt.SigningMethodHS256, []byte("another"), jwt.MapClaims{"sub": "x\",\"level\":\"error\"}\n{\"message\":\"forged"})
	if got, _ := s.dial(nil).Outcome(`"connect":{"token":"` + forged + `"}`); got != "disconnect 3500" {
		t.Errorf("got %s", got)
	}
	if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"sub": "ann", "exp": past()}) + `}`); got != "error 109" {
		t.Errorf("got %s", got)
	}
	s.awaitLog(`"user":"ann","addr":"127.0.0.1:`, `"unverified_user":"x\",\"level\":\"error\"}\n{\"message\":\"forged","addr":"127.0.0.1:`)
	if text := s.logged(); strings.Contains(text, "\n{\"message\":\"forged") {
		t.Errorf("a client wrote a line: %s", text)
	}
}
