package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/dev"
)

// devSite is what `gyro dev` adds to a server.
type devSite struct {
	page     http.Handler
	announce func(*config.Config)
}

// devCommand runs a server with which newcomers can try Gyro out.
func devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a development server on loopback with a demo page",
		Args:  cobra.NoArgs,

		Annotations: map[string]string{runsServer: "yes"},
	}
	port := cmd.Flags().IntP("port", "p", 8000, "port to listen on")
	level := cmd.Flags().String("log.level", "warn", "log level")
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg := dev.Config(*port)
		cfg.Log.Level = *level
		sign := func(user string) (string, error) {
			return auth.Sign(cfg.Client.Token, auth.Claims{User: user, TTL: dev.TokenTTL}, time.Now())
		}
		user := dev.User()
		token, err := sign(user)
		if err != nil {
			return err
		}
		site := &devSite{page: dev.Page(sign), announce: func(cfg *config.Config) {
			announce(cfg, user, token)
		}}
		return serve(cfg, config.Warnings{}, nil, site)
	}
	return cmd
}

// announce prints the addresses and secrets that a newcomer needs.
func announce(cfg *config.Config, user, token string) {
	base := fmt.Sprintf("http://localhost:%d", cfg.HTTPServer.Port)
	fmt.Printf(`
Gyro %s, development mode: loopback only, in memory, secrets made for this run.

  Demo page    %s/    (open it in two tabs)
  WebSocket    ws://localhost:%d/connection/websocket
  API key      %s
  Token        %s
               (user %q, valid for 24 h)

Publish from a backend; the demo page shows it:

  curl -s %s/api/publish -H 'X-API-Key: %s' -d '{"channel":"%s","data":{"text":"Hello from the backend"}}'

Press Ctrl-C to stop.
`, version, base, cfg.HTTPServer.Port, cfg.HTTPAPI.Key, token, user, base, cfg.HTTPAPI.Key, dev.Channel)
}
