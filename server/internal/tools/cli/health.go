package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Health asks the health endpoint of a node on this machine.
type Health struct {
	URL string
	TLS *tls.Config
}

// ErrHealthOff says that a node has no health endpoint.
var ErrHealthOff = errors.New("health.enabled is off, so the node has no health endpoint")

// HealthOf returns the health endpoint of a node, or live or ready below it. The certificate is not verified: it is for
// the names that clients use, and the node is on this machine.
func HealthOf(cfg *config.Config, name string) (Health, error) {
	if !cfg.Health.Enabled {
		return Health{}, ErrHealthOff
	}
	_, internal := listeners(&cfg.HTTPServer)
	prefix := path(cfg.Health.HandlerPrefix)
	if name != "" {
		prefix = path(prefix + "/" + name)
	}
	return Health{URL: internal.url("http", prefix), TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}, nil
}

const maxHealth = 64 << 10

// Run prints the answer. Any other status than 200 is an error with its text.
func (h Health) Run(ctx context.Context, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: h.TLS, DisableKeepAlives: true} // no proxy of the environment
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", h.URL, context.Cause(ctx))
		}
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxHealth))
	if err != nil {
		return fmt.Errorf("%s: %w", h.URL, err)
	}
	body = bytes.TrimSpace(body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", h.URL, res.Status, body)
	}
	_, err = fmt.Fprintf(out, "%s\n", body)
	return err
}
