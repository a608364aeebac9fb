// Package dev has the additions of `gyro dev` to a server: a configuration for loopback, a demo page, and a log for
// people.
package dev

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Namespace of the demo page.
const Namespace = "chat"

// Channel of the demo page.
const Channel = Namespace + ":index"

// AdminPrefix is the path of the admin web interface.
const AdminPrefix = "/admin"

// TokenTTL is the lifetime of demo tokens.
const TokenTTL = 24 * time.Hour

// Options of a development server.
type Options struct {
	// Port to listen on; 0 for any that is free.
	Port int
	// Secret signs and verifies tokens (HS256), at most 1,024 bytes; empty: random.
	Secret string
	// APIKey of at most 256 ASCII characters; empty: random.
	APIKey string
	// Origins are patterns of further web origins that may connect, beside this machine's.
	Origins []string
	// Base is a configuration of the developer; nil for none. It keeps all but addresses, paths and transports, which
	// the demo page and the admin interface need.
	Base *config.Config
}

// The * for the port matches other text too, but browsers send only digits there.
var loopbackOrigins = []string{
	"http{,s}://{localhost,127.0.0.1}{,:*}", `http{,s}://\[::1\]{,:*}`, "http{,s}://*.localhost{,:*}",
}

// Config returns a configuration for loopback: other machines reach nothing, and pages of other sites nothing unless
// Origins has them, because all clients need a token. Errors name the flag.
func Config(o Options) (*config.Config, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	def := config.DefaultConfig()
	cfg := def
	if o.Base != nil {
		own := *o.Base
		cfg = &own
		if t := &cfg.Client.Token; t.JWKSPublicEndpoint != "" || t.JWKS.Enabled {
			return nil, errors.New("client.token.jwks_public_endpoint, client.token.jwks.enabled: gyro dev signs tokens of its own by HMAC, which a JWKS excludes")
		}
	}
	cfg.HTTPServer = def.HTTPServer
	cfg.HTTPServer.Address, cfg.HTTPServer.Port = loopback, o.Port
	cfg.GRPCAPI.Address, cfg.UniGRPC.Address = loopback, loopback
	cfg.HTTPAPI.Disabled, cfg.HTTPAPI.HandlerPrefix = false, def.HTTPAPI.HandlerPrefix
	cfg.HTTPAPI.Key = cmp.Or(o.APIKey, cfg.HTTPAPI.Key, rand.Text())
	cfg.Client.Token.HMACSecretKey = cmp.Or(o.Secret, cfg.Client.Token.HMACSecretKey, rand.Text()+rand.Text())
	cfg.Admin = config.Admin{
		Enabled: true, HandlerPrefix: AdminPrefix, Password: cmp.Or(cfg.Admin.Password, rand.Text()),
		Secret: cmp.Or(cfg.Admin.Secret, rand.Text()+rand.Text()), SessionTTL: cfg.Admin.SessionTTL,
	}
	cfg.Client.AllowedOrigins = slices.Concat(cfg.Client.AllowedOrigins, o.Origins, loopbackOrigins)
	enableTransports(cfg, def)
	cfg.Health = def.Health
	cfg.Health.Enabled = true
	if !slices.ContainsFunc(cfg.Channel.Namespaces, func(n config.Namespace) bool { return n.Name == Namespace }) {
		cfg.Channel.Namespaces = append(slices.Clone(cfg.Channel.Namespaces), config.Namespace{Name: Namespace, ChannelOptions: demoOptions()})
	}
	return cfg, nil
}

const loopback = "127.0.0.1"

// enableTransports enables the transports that need no certificate and no other port, at the paths that the demo page
// and the announcement name. SockJS is for old clients, and stays as it was.
func enableTransports(cfg, def *config.Config) {
	cfg.Emulation.HandlerPrefix = def.Emulation.HandlerPrefix
	defaults := def.Transports()
	for i, t := range cfg.Transports() {
		switch t.Section {
		case "sockjs":
		case "webtransport":
			t.Switch(false) // it needs TLS
		default:
			t.Switch(true)
			*t.Prefix = *defaults[i].Prefix
		}
	}
}

func demoOptions() config.ChannelOptions {
	o := config.DefaultConfig().Channel.WithoutNamespace
	o.Presence, o.JoinLeave, o.ForcePushJoinLeave = true, true, true
	o.HistorySize, o.HistoryTTL, o.ForceRecovery = 100, 10*time.Minute, true
	o.AllowSubscribeForClient, o.AllowPublishForSubscriber = true, true
	o.AllowPresenceForSubscriber, o.AllowHistoryForSubscriber = true, true
	return o
}

func (o Options) check() error {
	if !printable(o.Secret, 1024) {
		return errors.New("--secret: up to 1024 bytes of printable text are expected")
	}
	if !printable(o.APIKey, 256) || strings.ContainsFunc(o.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("--api-key: up to 256 printable ASCII characters without spaces are expected: it travels in a header")
	}
	for _, from := range o.Origins {
		scheme, host, _ := strings.Cut(from, "://")
		if from != "*" && from != "null" && (scheme == "" || host == "" || strings.Contains(host, "/") || from != strings.ToLower(from)) {
			return fmt.Errorf("--origin: %q is no origin: scheme, host and port are expected, in lower case and without a path, such as https://app.example.com", from)
		}
		if _, err := config.NewOrigins([]string{from}); err != nil {
			return fmt.Errorf("--origin: %w", err)
		}
	}
	return nil
}

func printable(text string, limit int) bool {
	return len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// Local reports whether a Host field names this machine: localhost or a loopback address. A page of another site has
// another name in it, even if that name resolves to loopback; it must not read the data for the pages of this server.
func Local(hostport string) bool {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = strings.Trim(hostport, "[]"), "0"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Zone() == "" && ip.IsLoopback()
}

var (
	adjectives = []string{"amber", "brisk", "calm", "daring", "eager", "fair", "gentle", "happy", "jolly", "keen", "lively", "merry", "noble", "proud", "quick", "sunny"}
	animals    = []string{"badger", "crane", "dolphin", "falcon", "gecko", "heron", "ibex", "lynx", "marten", "newt", "otter", "panda", "quail", "raven", "seal", "wren"}
)

var (
	firstUser = mathrand.Uint32()
	users     atomic.Uint32
)

// User makes up the name of a demo user. 256 in a row differ. Any goroutine may call it.
func User() string {
	const step = 149 // odd, so that all names come
	n := int((firstUser + step*users.Add(1)) % uint32(len(adjectives)*len(animals)))
	return adjectives[n/len(animals)] + "-" + animals[n%len(animals)]
}
