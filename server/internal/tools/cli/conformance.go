package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/tools/conformance"
)

// Conformance judges a server by the rules of the protocol.
type Conformance struct {
	Remote
	// URLs of endpoints, each with its transport; none: Remote.URL.
	URLs []string
	// Emulation as in conformance.Options.
	Emulation string
	// Encodings to judge; none: all that a transport has.
	Encodings []protocol.Encoding
	Channels  []string
	// As in conformance.Options.
	Seed              uint64
	Steps             int
	Timeout, Patience time.Duration
	// Only, if set, is a regular expression for the names of checks.
	Only    string
	Verbose bool
}

// Failed has the number of failed checks.
type Failed struct{ Checks int }

// Error implements error.
func (f Failed) Error() string { return fmt.Sprintf("%d checks have failed", f.Checks) }

type verdict struct {
	Seed    uint64 `json:"seed"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
}

// Run judges each endpoint in each encoding. Its error is a Failed if a check has failed.
func (c *Conformance) Run(ctx context.Context, out *Output) error {
	runs, err := c.runs()
	if err != nil {
		return err
	}
	sum := verdict{Seed: c.Seed}
	for _, o := range runs {
		out.message("judging %s in %s, with the seed %d", o.URL, o.Encoding, c.Seed)
		results, err := conformance.Run(ctx, o)
		if err != nil {
			return fmt.Errorf("the server cannot be judged: %w", err)
		}
		if len(results) == 0 {
			return Usage("run: no check has a name that matches %q", c.Only)
		}
		for _, r := range results {
			switch r.Status {
			case conformance.Passed:
				sum.Passed++
			case conformance.Skipped:
				sum.Skipped++
			default:
				sum.Failed++
			}
			if err := c.print(out, r); err != nil {
				return err
			}
		}
	}
	if err := c.sum(out, sum); err != nil {
		return err
	}
	if sum.Failed > 0 {
		return Failed{sum.Failed}
	}
	return nil
}

func (c *Conformance) print(out *Output, r conformance.Result) error {
	if out.JSON {
		return out.object(r)
	}
	if r.Status == conformance.Passed && !c.Verbose {
		return nil
	}
	head := fmt.Sprintf("%-7s %s  %s %s", r.Status, r.Check, r.Transport, r.Encoding)
	lines := []string{head}
	switch r.Status {
	case conformance.Skipped:
		lines[0] += ": " + r.Text
	case conformance.Failed:
		lines = append(lines, "        rule: "+r.Rule, "        see:  docs/"+r.Section, "        "+r.Text)
		for _, said := range r.Transcript {
			lines = append(lines, "          "+said)
		}
	}
	for _, line := range lines {
		if err := out.line(harmless(line)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conformance) sum(out *Output, v verdict) error {
	if out.JSON {
		return out.object(v)
	}
	return out.line(fmt.Sprintf("%d passed, %d failed, %d skipped; seed %d", v.Passed, v.Failed, v.Skipped, v.Seed))
}

// Rules prints the rule of each check.
func (c *Conformance) Rules(out *Output) error {
	rows := [][]string{{"CHECK", "SECTION", "RULE"}}
	var objects []any
	for _, r := range conformance.Rules() {
		objects = append(objects, struct {
			Check   string `json:"check"`
			Section string `json:"section"`
			Rule    string `json:"rule"`
		}{r.Check, r.Section, r.Rule})
		rows = append(rows, []string{r.Check, r.Section, r.Rule})
	}
	return out.list(objects, rows)
}

func (c *Conformance) runs() ([]conformance.Options, error) {
	o := conformance.Options{
		Emulation: c.Emulation, TLS: c.TLS, Prefixes: c.Channels, Token: c.Token, User: c.User,
		Seed: c.Seed, Steps: c.Steps, Timeout: c.Timeout, Patience: c.Patience,
	}
	if c.Only != "" {
		var err error
		if o.Only, err = regexp.Compile(c.Only); err != nil {
			return nil, Usage("run: %w", err)
		}
	}
	switch {
	case c.Token != "" && c.Sign != nil:
		return nil, Usage("token: is given, and so is a secret that signs tokens: leave one of them out")
	case c.Token != "":
		o.User = userOf(c.Token)
	case c.Sign != nil:
		o.Sign = func(ttl time.Duration) (string, error) { return sign(c.Sign, auth.Claims{User: c.User}, ttl) }
	}
	if c.Token == "" && c.Subscribe != nil {
		o.SignSubscription = func(ch string, ttl time.Duration) (string, error) {
			return sign(c.Subscribe, auth.Claims{User: c.User, Channel: ch}, ttl)
		}
	}
	if c.KeySecret != "" {
		o.SignKeys = func(ch string, keys []string, ttl time.Duration) string {
			now := time.Now()
			return auth.SignTrack(c.KeySecret, c.User, ch, keys, now.Unix(), now.Add(ttl).Unix())
		}
	}
	return c.endpoints(o)
}

// sign signs a token that ends after ttl; below 0, that long ago; 0: never.
func sign(section *config.Token, claims auth.Claims, ttl time.Duration) (string, error) {
	now := time.Now()
	if ttl < 0 { // a token lasts a second at least
		now, ttl = now.Add(ttl), time.Second
	}
	claims.TTL = ttl
	return auth.Sign(*section, claims, now)
}

// userOf does not verify the token.
func userOf(token string) string {
	var claims struct {
		User string `json:"sub"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if data, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(data, &claims) // the user stays empty
		}
	}
	return claims.User
}

func (c *Conformance) endpoints(o conformance.Options) ([]conformance.Options, error) {
	var out []conformance.Options
	urls := c.URLs
	if len(urls) == 0 {
		remote := c.Remote
		if err := remote.complete(); err != nil {
			return nil, err
		}
		urls = []string{remote.URL}
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return nil, Usage("%q is no address such as %s", text, DefaultURL)
		}
		if strings.Trim(u.Path, "/") == "" && (u.Scheme == "ws" || u.Scheme == "wss") {
			u.Path = "/connection/websocket"
		}
		o.URL = u.String()
		if c.APIKey != "" || c.API != "" {
			remote := c.Remote
			remote.URL = cmp.Or(remote.URL, o.URL)
			if o.API, err = remote.Caller(); err != nil {
				return nil, err
			}
		}
		onlyJSON, err := conformance.JSONOnly(o.URL)
		if err != nil {
			return nil, UsageError{err}
		}
		for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
			given := len(c.Encodings) == 0 && (e == protocol.JSON || !onlyJSON)
			for _, wanted := range c.Encodings {
				given = given || wanted == e
			}
			if o.Encoding = e; given {
				out = append(out, o)
			}
		}
	}
	return out, nil
}
