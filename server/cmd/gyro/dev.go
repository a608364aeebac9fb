package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/dev"
)

type devSite struct {
	pages map[string]http.Handler
	// announce is called once the server listens at addr.
	announce func(addr string)
}

func devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a development server on loopback with a demo page",
		Long: `Run a development server on loopback: a demo page at http://localhost:8000/ that also shows how to
go on, everything in memory, no configuration file. Pages on this machine may connect, on whatever
port they are, and all transports are served that need neither a certificate nor another port, except
SockJS. Secrets are random unless flags give them. The terminal explains every request that the
server refuses.

With -c, the server has the namespaces, secrets and all else of a configuration of yours, and the variables
that a server has, but for addresses, paths, TLS and transports, which are those that the demo needs.
The demo page is in the namespace chat, which is added unless there is one.`,
		Example: "  gyro dev\n  gyro dev -c config.json",
		Args:    cobra.NoArgs,

		Annotations: map[string]string{runsServer: "yes"},
	}
	var o dev.Options
	f := cmd.Flags()
	f.IntVarP(&o.Port, "port", "p", 8000, "port to listen on; 0 for any that is free")
	f.StringVar(&o.Secret, "secret", "", "HMAC secret of tokens, so that tokens stay valid over restarts; by default a random one")
	f.StringVar(&o.APIKey, "api-key", "", "key of the server API; by default a random one")
	f.StringArrayVar(&o.Origins, "origin", nil, "web origin that may connect beside those of this machine, * for any; may be given several times")
	file := f.StringP("config", "c", "", "path to config file; empty for none")
	level := f.String("log.level", "info", "log level")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		lowest, err := logs.Level(*level)
		if err != nil {
			return err
		}
		var warnings config.Warnings
		if *file != "" {
			if o.Base, warnings, err = ownConfig(*file); err != nil {
				return err
			}
			if !cmd.Flags().Changed("port") {
				o.Port = o.Base.HTTPServer.Port
			}
		}
		cfg, err := dev.Config(o)
		if err != nil {
			return err
		}
		return develop(cfg, warnings, lowest)
	}
	return cmd
}

func ownConfig(file string) (*config.Config, config.Warnings, error) {
	if err := config.LoadDotEnv(".env"); err != nil {
		return nil, config.Warnings{}, err
	}
	return config.Load(config.Options{File: file, RequireFile: true, Env: os.Environ()})
}

// develop runs a development server. Its announcement replaces the info lines of the start.
func develop(cfg *config.Config, warnings config.Warnings, level slog.Level) error {
	user := dev.User()
	token, err := auth.Sign(cfg.Client.Token, auth.Claims{User: user, TTL: dev.TokenTTL}, time.Now())
	if err != nil {
		return err
	}
	lowest := new(slog.LevelVar)
	lowest.Set(level)
	if level == slog.LevelInfo {
		lowest.Set(slog.LevelWarn)
	}
	colour := logs.Colours(os.Stdout)
	recent := logs.NewRecent()
	log := logging.Unlimited(slog.New(recent.Handler(logs.Controlled(dev.NewHandler(os.Stdout, lowest, colour), level).Handler())))
	defer logging.Flush(log) //nolint:errcheck // the process ends
	site := &devSite{pages: dev.Pages(cfg), announce: func(addr string) {
		_ = logging.Flush(log) // warnings of the start come first
		lowest.Set(logs.All)   // before the address is known, so that the first refusal is explained
		announce(cfg, warnings.Source, addr, user, token)
	}}
	err = serveWith(log, recent, cfg, warnings, nil, site)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; gyro dev --port takes another port", err)
	}
	return err
}

// announce prints addresses and secrets. file is the configuration file, if there is one.
func announce(cfg *config.Config, file, addr, user, token string) {
	how := "everything in memory"
	if file != "" {
		how = "with " + file
	}
	_, port, _ := net.SplitHostPort(addr) // of a listener: there is one
	host := "localhost:" + port
	fmt.Printf(`
Gyro %s, development mode: on this machine only, %s.

  Demo page    http://%s/    (open it in two tabs; it also shows the code)
  Admin UI     http://%s%s/    (password %s)
  WebSocket    ws://%s/connection/websocket
  HTTP stream  http://%s/connection/http_stream
  SSE          http://%s/connection/sse
  One-way      http://%s/connection/uni_sse (or uni_http_stream, uni_poll, uni_websocket)
  API key      %s
  HMAC secret  %s
  Token        %s
               (user %q, signed with the secret, valid for 24 h)

Publish from a backend; the demo page shows it:

  %s

Watch in a terminal what happens in the channel of the demo page:

  %s

Pages of any http://localhost port may connect. Requests that are refused are explained below.
Press Ctrl-C to stop.
`, version, how, host, host, dev.AdminPrefix, cfg.Admin.Password, host, host, host, host, cfg.HTTPAPI.Key, cfg.Client.Token.HMACSecretKey, token, user, dev.Curl(cfg, host), dev.Watch(host, token))
}
