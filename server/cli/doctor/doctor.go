// Package doctor looks at what a server needs around it, as its configuration says: limits of the system, ports, Redis,
// NATS, PostgreSQL, clocks, certificates, backends and tokens. It changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/config"
)

// Status of a finding.
type Status string

// Statuses: what is well, what may become a problem, what is one.
const (
	OK   Status = "ok"
	Warn Status = "warning"
	Fail Status = "problem"
)

// Finding is the result of one check.
type Finding struct {
	Area   string `json:"area"`
	Status Status `json:"status"`
	Text   string `json:"text"`
	// Advice says what to do; empty if all is well.
	Advice string `json:"advice,omitempty"`
}

// Options of an examination.
type Options struct {
	Config *config.Config
	// Warnings about the configuration.
	Warnings []string
	// Check finds mistakes that the validation does not find; it connects to nothing.
	Check func(*config.Config) error
	// Proc is the /proc of the system; nil if it has none.
	Proc fs.FS
	// Timeout bounds each connection.
	Timeout time.Duration
	// Report gets each finding when it is there.
	Report func(Finding) error
}

// Examine makes all checks, and returns whether one has found a problem.
func Examine(ctx context.Context, o Options) (failed bool, err error) {
	d := &doctor{Options: o}
	for _, area := range []func(context.Context){d.configuration, d.tokens, d.limits, d.ports, d.certificates, d.engines, d.consumers, d.backends} {
		area(ctx)
		if d.err != nil || ctx.Err() != nil {
			return d.failed, errors.Join(d.err, context.Cause(ctx))
		}
	}
	return d.failed, nil
}

type doctor struct {
	Options
	failed bool
	err    error // of Report
}

func (d *doctor) say(area string, s Status, advice, format string, args ...any) {
	d.failed = d.failed || s == Fail
	if d.err == nil {
		d.err = d.Report(Finding{Area: area, Status: s, Text: fmt.Sprintf(format, args...), Advice: advice})
	}
}

func (d *doctor) configuration(context.Context) {
	const area = "configuration"
	for _, w := range d.Warnings {
		d.say(area, Warn, "correct or remove the key", "%s", w)
	}
	if err := d.Check(d.Config); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			d.say(area, Fail, "correct the key: the server does not start", "%s", line)
		}
		return
	}
	d.say(area, OK, "", "the server starts with it")
}

// leastSecret is how many bytes a secret of HS256 should have: as many as its digest.
const leastSecret = 32

func (d *doctor) tokens(ctx context.Context) {
	const area = "tokens"
	c := &d.Config.Client
	sections := map[string]*config.Token{"client.token": &c.Token}
	if c.SubscriptionToken.Enabled {
		sections["client.subscription_token"] = &c.SubscriptionToken.Token
	}
	verified := false
	for _, name := range []string{"client.token", "client.subscription_token"} {
		t := sections[name]
		if t == nil {
			continue
		}
		if t.HMACSecretKey != "" {
			verified = true
			if n := len(t.HMACSecretKey); n < leastSecret {
				d.say(area, Warn, "let gyro genconfig make one", "%s.hmac_secret_key has %d bytes: one that is shorter than %d can be guessed from a token", name, n, leastSecret)
			}
		}
		if t.RSAPublicKey != "" || t.ECDSAPublicKey != "" {
			verified = true
		}
		if u := t.JWKSPublicEndpoint; u != "" {
			verified = true
			if !strings.Contains(u, "{{") {
				d.reach(ctx, area, name+".jwks_public_endpoint", u)
			}
		}
	}
	asked := c.Proxy.Connect.Enabled
	switch {
	case verified:
		d.say(area, OK, "", "connection tokens can be verified")
	case asked:
		d.say(area, OK, "", "the backend decides about connections")
	case c.Insecure || c.AllowAnonymousConnect:
		d.say(area, Warn, "set client.token.hmac_secret_key if clients have users", "no token can be verified: all clients are anonymous")
	default:
		d.say(area, Fail, "set client.token.hmac_secret_key, or enable client.proxy.connect", "no client can connect: no token can be verified, anonymous clients are not allowed, and no backend is asked")
	}
}

// backends tells whether what the server asks about clients can be reached.
func (d *doctor) backends(ctx context.Context) {
	const area = "backends"
	c := d.Config
	seen := map[string]bool{}
	visit := func(key string, on bool, p *config.Proxy) {
		if on && p.Endpoint != "" && !seen[p.Endpoint] {
			seen[p.Endpoint] = true
			d.reach(ctx, area, key+".endpoint", p.Endpoint)
		}
	}
	visit("client.proxy.connect", c.Client.Proxy.Connect.Enabled, &c.Client.Proxy.Connect.Proxy)
	visit("client.proxy.refresh", c.Client.Proxy.Refresh.Enabled, &c.Client.Proxy.Refresh.Proxy)
	visit("channel.proxy.subscribe", true, &c.Channel.Proxy.Subscribe)
	visit("channel.proxy.publish", true, &c.Channel.Proxy.Publish)
	visit("rpc.proxy", true, &c.RPC.Proxy)
	for i := range c.Proxies {
		visit(fmt.Sprintf("proxies[%d](%s)", i, c.Proxies[i].Name), true, &c.Proxies[i].Proxy)
	}
}

// reach connects to the host of an address.
func (d *doctor) reach(ctx context.Context, area, key, address string) {
	host, err := hostOf(address)
	if err != nil {
		d.say(area, Fail, "correct "+key, "%s is not an address", key)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	begun := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		d.say(area, Fail, "start what listens there, or correct "+key, "%s: %s does not answer: %v", key, host, err)
		return
	}
	conn.Close()
	d.say(area, OK, "", "%s: %s accepts connections, after %s", key, host, since(begun))
}

// hostOf returns host and port of a URL, or of the target of a gRPC backend.
func hostOf(address string) (string, error) {
	ports := map[string]string{"http": "80", "https": "443"}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		u, err = url.Parse("grpc://" + address)
	}
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	if u.Hostname() == "" || port == "" {
		return "", errors.New("no host and port")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// since rounds the time that something took for people.
func since(begun time.Time) time.Duration { return time.Since(begun).Round(10 * time.Microsecond) }
