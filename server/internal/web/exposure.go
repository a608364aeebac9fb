package web

import (
	"cmp"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Exposure warns of endpoints of a started server that clients reach, but should not.
type Exposure struct {
	Config  *config.Config
	Address string
	Shared  bool
}

// Warn logs endpoints for backends and operators that clients can reach, and an open gRPC API.
func (s Exposure) Warn(log *slog.Logger) {
	cfg := s.Config
	WarnOpen(log, &cfg.GRPCAPI)
	s.warnUseless(log)
	clients := slices.ContainsFunc(cfg.Transports(), config.Transport.On)
	if !clients || loopback(cfg.HTTPServer.Address) {
		return
	}
	for _, e := range []struct {
		section, path string
		on, external  bool
	}{
		{"http_api", cfg.HTTPAPI.HandlerPrefix, !cfg.HTTPAPI.Disabled, cfg.HTTPAPI.External},
		{"prometheus", cfg.Prometheus.HandlerPrefix, cfg.Prometheus.Enabled, false},
		{"debug", cfg.Debug.HandlerPrefix, cfg.Debug.Enabled, false},
		{"admin", cmp.Or(cfg.Admin.HandlerPrefix, "/"), cfg.Admin.Enabled, cfg.Admin.External},
		{"swagger", cfg.Swagger.HandlerPrefix, cfg.Swagger.Enabled, false},
	} {
		keys := "http_server.internal_port, http_server.internal_address"
		switch {
		case !e.on || !s.Shared && !e.external:
			continue
		case e.external && s.Shared:
			keys += ", " + e.section + ".external"
		case e.external:
			keys = e.section + ".external"
		}
		log.Warn("clients can reach an endpoint for backends and operators",
			"endpoint", e.section, "path", e.path, "address", s.Address, "keys that change it", keys)
	}
}

// WarnOpen warns of a gRPC API without keys, tokens and client certificates.
func WarnOpen(log *slog.Logger, g *config.GRPCAPI) {
	if g.Enabled && g.Open() && (!g.TLS.Enabled || g.TLS.ClientCAPEM == "") && !loopback(g.Address) {
		log.Warn("everybody who reaches this port may use the server API", "endpoint", "grpc_api",
			"address", net.JoinHostPort(strings.Trim(g.Address, "[]"), strconv.Itoa(g.Port)), "keys that change it", "grpc_api.key, grpc_api.address, grpc_api.tls.client_ca_pem")
	}
}

// warnUseless warns of a page of the server API that cannot reach the API.
func (s Exposure) warnUseless(log *slog.Logger) {
	cfg := s.Config
	if cfg.Swagger.Enabled && (cfg.HTTPAPI.Disabled || cfg.HTTPAPI.External && !s.Shared) {
		log.Warn("the page of the server API cannot send requests, as the API is not on its listener",
			"endpoint", "swagger", "path", cfg.Swagger.HandlerPrefix, "keys that change it", "http_api.disabled, http_api.external")
	}
}

// loopback tells whether other machines cannot reach the address.
func loopback(address string) bool {
	ip := net.ParseIP(strings.Trim(address, "[]"))
	return address == "localhost" || ip != nil && ip.IsLoopback()
}
