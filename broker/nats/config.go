package nats

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Config of a Broker. A field that is 0 takes its default.
type Config struct {
	// URL of the server, or several of a NATS cluster with commas between them: nats://, tls:// for TLS, ws:// and
	// wss:// for WebSocket, then perhaps user:password@ or token@, then host:port. Default nats://localhost:4222.
	URL string
	// Prefix of the subjects prefix.client.CHANNEL, prefix.control, prefix.node.NODE and prefix.canary.ID. It keeps
	// programs on one NATS apart. Default "gyro"; the gyro server and Centrifugo have "centrifugo".
	Prefix string

	// User and Password, or Token, are used where the URL has neither.
	User, Password, Token string
	// CredentialsFile is the path of a file with a user's JWT and NKey seed.
	CredentialsFile string
	// TLS is the configuration for TLS. The server's name is the host of the URL unless it is given here. Default nil:
	// TLS, with the system's certificates, if the URL or the server demands it.
	TLS *tls.Config

	// DialTimeout bounds connecting, handshakes included. Default 1 s.
	DialTimeout time.Duration
	// WriteTimeout bounds a write; then the connection is given up. Default 1 s.
	WriteTimeout time.Duration
	// RequestTimeout bounds the wait for the server's answer. Default 4 s.
	RequestTimeout time.Duration
	// StartTimeout is for how long Run and Connect try again if the server cannot be reached. Default 0: one attempt.
	StartTimeout time.Duration

	// AllowWildcards lets subscribers use the wildcards of NATS, * and >, in channels, but not at the beginning. All
	// publications then have their real channel in Publication.Channel.
	AllowWildcards bool
	// Covers tells whether subscribers of a pattern (a channel with wildcards) get the publications of a channel that
	// matches it. Several goroutines call it, for each such publication. Default nil: they get all.
	Covers func(pattern, channel string) bool
	// Raw exchanges bare payloads with other NATS applications.
	Raw RawMode

	// PendingBytes bounds the memory of received events that wait for the node. Further ones are dropped, and
	// EventHandler.HandleLoss is called. Default 64 MiB; at least 1 MiB.
	PendingBytes int

	// Logger for what happens on the connection. Default slog.Default().
	Logger *slog.Logger
}

// RawMode makes the subject of a channel from its name alone and the message of a publication from its data alone.
// Client info, tags, delta, joins and leaves are not sent.
type RawMode struct {
	Enabled bool
	// Prefix of the subjects of channels. Nothing is added: "app." rather than "app".
	Prefix string
	// Replacements are applied to a channel in one pass from left to right, the longest first. Channels that become the
	// same subject share their publications.
	Replacements map[string]string
}

const (
	minPendingBytes = 1 << 20
	maxPrefix       = 256
)

func (c Config) withDefaults() (Config, error) {
	c.URL = cmp.Or(c.URL, "nats://localhost:4222")
	c.Prefix = cmp.Or(c.Prefix, "gyro")
	c.DialTimeout = cmp.Or(c.DialTimeout, time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 4*time.Second)
	c.PendingBytes = cmp.Or(c.PendingBytes, 64<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c, c.check()
}

func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("nats: "+format, args...)) }
	if _, err := c.hosts(); err != nil {
		bad("URL: %w", err)
	}
	if !validSubject(c.Prefix) || hasWildcard(c.Prefix) || len(c.Prefix) > maxPrefix {
		bad("Prefix %q must be a NATS subject without wildcards, of at most %d bytes", c.Prefix, maxPrefix)
	}
	if ofSystem(c.Prefix) {
		bad("Prefix %q begins with a token that NATS keeps for itself", c.Prefix)
	}
	for name, d := range map[string]time.Duration{
		"DialTimeout": c.DialTimeout, "WriteTimeout": c.WriteTimeout, "RequestTimeout": c.RequestTimeout,
	} {
		if d < 0 {
			bad("%s (%v) must not be negative", name, d)
		}
	}
	if c.StartTimeout < 0 {
		bad("StartTimeout (%v) must not be negative", c.StartTimeout)
	}
	if c.PendingBytes < minPendingBytes {
		bad("PendingBytes (%d) must be at least %d", c.PendingBytes, minPendingBytes)
	}
	if (c.User == "") != (c.Password == "") {
		bad("User and Password go together")
	}
	if c.User != "" && c.Token != "" || c.CredentialsFile != "" && (c.User != "" || c.Token != "") {
		bad("User with Password, Token and CredentialsFile exclude each other")
	}
	if c.CredentialsFile != "" {
		if _, err := os.Stat(c.CredentialsFile); err != nil {
			bad("CredentialsFile: %w", err)
		}
	}
	if p := c.Raw.Prefix; c.Raw.Enabled && (!validSubject(p+"x") || hasWildcard(p) || len(p) > maxPrefix) {
		bad("Raw.Prefix %q must be the begin of a NATS subject without wildcards, of at most %d bytes", p, maxPrefix)
	}
	if c.Raw.Enabled && newNames(c).isReserved(c.Raw.Prefix+"x.x") {
		bad("Raw.Prefix %q makes channels of subjects of NATS or of Gyro's own (those of Prefix %q)", c.Raw.Prefix, c.Prefix)
	}
	if _, ok := c.Raw.Replacements[""]; ok {
		bad("Raw.Replacements must not replace the empty string")
	}
	return errors.Join(errs...)
}

func (c *Config) userInURL() *url.Userinfo {
	first, _, _ := strings.Cut(c.URL, ",")
	first = strings.TrimSpace(first)
	if !strings.Contains(first, "://") {
		first = "nats://" + first
	}
	u, err := url.Parse(first)
	if err != nil {
		return nil
	}
	return u.User
}

func (c *Config) servers() []string {
	list := strings.Split(c.URL, ",")
	for i, s := range list {
		list[i] = strings.TrimSpace(s)
	}
	return list
}

// hosts returns the addresses in URL. Neither they nor the errors have secrets.
func (c *Config) hosts() ([]string, error) {
	var hosts []string
	for i, s := range c.servers() {
		if s == "" {
			return nil, fmt.Errorf("server %d of the list is empty", i+1)
		}
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil {
			// The text of err has the URL, with the password.
			return nil, fmt.Errorf("server %d of the list is not a URL", i+1)
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return nil, fmt.Errorf("server %d of the list: scheme %q is none of nats, tls, ws, wss", i+1, u.Scheme)
		}
		if u.Hostname() == "" {
			return nil, fmt.Errorf("server %d of the list has no host", i+1)
		}
		hosts = append(hosts, u.Host)
	}
	return hosts, nil
}
