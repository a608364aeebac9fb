package channels

import (
	"strings"

	"github.com/gyrohq/gyro/server/internal/config"
)

// RPC resolves the methods of RPC calls. It is immutable.
type RPC struct {
	boundary string
	options  map[string]config.RPCOptions
	proxied  bool
	ping     string
}

// NewRPC returns the resolver of a validated configuration.
func NewRPC(cfg config.RPC) *RPC {
	r := &RPC{boundary: cfg.NamespaceBoundary, options: map[string]config.RPCOptions{"": cfg.WithoutNamespace}}
	if cfg.Ping.Enabled {
		r.ping = cfg.Ping.Method
	}
	r.proxied = cfg.WithoutNamespace.ProxyEnabled
	for _, n := range cfg.Namespaces {
		r.options[n.Name] = n.RPCOptions
		r.proxied = r.proxied || n.ProxyEnabled
	}
	return r
}

// Decide tells what answers a method: the built-in ping, the named proxy, or nothing (err is a *refusal.Reason).
func (r *RPC) Decide(method string) (ping bool, proxy string, err error) {
	switch {
	case r.ping != "" && method == r.ping:
		return true, "", nil
	case !r.proxied && r.ping == "":
		return false, "", errNoRPC
	case !r.proxied:
		return false, "", errNoMethod
	}
	namespace := ""
	if r.boundary != "" {
		if before, _, ok := strings.Cut(method, r.boundary); ok {
			namespace = before
		}
	}
	options, ok := r.options[namespace]
	if !ok {
		return false, "", errNoMethod
	}
	if !options.ProxyEnabled {
		return false, "", errRPCOff
	}
	return false, options.ProxyName, nil
}
