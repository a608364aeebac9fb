// Package conformance judges a server of the client protocol from the outside (docs/conformance.md): a table of checks,
// each of a rule of docs/protocol-rules.md, and random conversations that a model foresees. It knows nothing of the
// server's configuration: it finds out the permissions of channels, and skips, with the reason, a check for which no
// channel has the permissions.
package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/talk"
)

// Options of a run.
type Options struct {
	// URL of the endpoint. It determines the transport: ws or wss for WebSocket; http or https for a stream (of
	// server-sent events if the path ends with sse); https for WebTransport if the path ends with webtransport; http or
	// https for SockJS if the path ends with sockjs. One-way transports have paths that end with uni_websocket, uni_sse
	// or uni_http_stream.
	URL string
	// Emulation is the endpoint for the commands of streams; by default /emulation on the host of URL.
	Emulation string
	Encoding  protocol.Encoding
	TLS       *tls.Config
	// Prefixes of the names of channels; each stands for the permissions of the server's namespace.
	Prefixes []string
	// Token is the token of all connections. Sign, unless it is nil, signs others, which end after ttl (0: never).
	// SignSubscription signs subscription tokens.
	Token            string
	Sign             func(ttl time.Duration) (string, error)
	SignSubscription func(channel string, ttl time.Duration) (string, error)
	// SignKeys signs keys of shared poll for User; nil: no signatures.
	SignKeys func(channel string, keys []string, ttl time.Duration) string
	// User of all tokens; empty for anonymous connections.
	User string
	// API is the HTTP API of the server; nil for none.
	API *apicall.Caller
	// Seed of everything random: the same seed gives the same conversations.
	Seed uint64
	// Steps of each random conversation; 0 for 150.
	Steps int
	// Timeout bounds the wait for any message that must come; 0 for 5 s.
	Timeout time.Duration
	// Patience bounds the wait for messages that the server sends by itself after a time that it announces, such as
	// pings; 0 for 60 s.
	Patience time.Duration
	// Only, unless it is nil, leaves out checks whose names it does not match.
	Only *regexp.Regexp
}

// Status of a check.
type Status string

// Statuses. A check is skipped if the server lacks a feature that it needs.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result of a check.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Transport and Encoding of the connections.
	Transport string `json:"transport"`
	Encoding  string `json:"encoding"`
	// Section of the specification, below docs/, and the Rule in short.
	Section string `json:"section"`
	Rule    string `json:"rule"`
	// Text has the expected and the received message, or the reason why the check was skipped.
	Text string `json:"text,omitempty"`
	// Transcript has the last messages before a failure, without tokens.
	Transcript []string `json:"transcript,omitempty"`
}

// moment bounds the wait for a message that must not come, where no other message shows its absence.
const moment = 50 * time.Millisecond

// atOnce is how many checks are made at a time.
const atOnce = 8

// Run makes the checks of one transport and encoding, and returns their results in the order of the table. The error says why the
// server cannot be judged at all.
func Run(ctx context.Context, o Options) ([]Result, error) {
	s, err := newSuite(o)
	if err != nil {
		return nil, err
	}
	defer s.server.Dialer.Close()
	if err := s.discover(ctx); err != nil {
		return nil, err
	}
	var chosen []check
	for _, c := range checks() {
		if (o.Only == nil || o.Only.MatchString(c.name)) && (c.needs&oneWay != 0) == s.server.Dialer.Kind.OneWay {
			chosen = append(chosen, c)
		}
	}
	results := make([]Result, len(chosen))
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, c := range chosen {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		wait.Go(func() {
			defer func() { <-slots }()
			results[i] = s.judge(ctx, c)
		})
	}
	wait.Wait()
	return results, context.Cause(ctx)
}

// Rules returns the rule of each check, in the order of the checks.
func Rules() []Result {
	var out []Result
	for _, c := range checks() {
		out = append(out, Result{Check: c.name, Section: c.section, Rule: c.rule})
	}
	return out
}

// suite is a run.
type suite struct {
	Options
	server *probe.Server
	kinds  []grant // permissions of the channels of each prefix
}

func newSuite(o Options) (*suite, error) {
	o.Steps, o.Patience = cmp.Or(o.Steps, 150), cmp.Or(o.Patience, time.Minute)
	dialer, err := talk.NewDialer(o.URL, o.Emulation, o.Encoding, o.TLS)
	if err != nil {
		return nil, err
	}
	dialer.Timeout = o.Timeout
	if len(o.Prefixes) == 0 {
		o.Prefixes = []string{""}
	}
	return &suite{Options: o, server: &probe.Server{
		Dialer: dialer, Encoding: o.Encoding, TLS: o.TLS, Token: o.Token, Sign: o.Sign, SignSubscription: o.SignSubscription, SignKeys: o.SignKeys, User: o.User, API: o.API,
		Timeout: cmp.Or(o.Timeout, 5*time.Second), Moment: moment, Run: fmt.Sprintf("conformance-%x-", time.Now().UnixNano()),
	}}, nil
}

// JSONOnly reports whether the transport of an endpoint has no Protobuf; or the error says that there is none.
func JSONOnly(url string) (bool, error) {
	kind, err := talk.KindOf(url)
	return talk.JSONOnly(kind), err
}

// random returns the numbers of a check: the same for a seed, with any selection of checks.
func (s *suite) random(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it does not fail
	return rand.New(rand.NewPCG(s.Seed, h.Sum64()))
}

// client is a connection of a check.
type client = probe.Client

// trial is a check while it is made.
type trial struct {
	*probe.Probe
	grant
	random   *rand.Rand
	steps    int
	patience time.Duration
}

func newTrial(ctx context.Context, s *suite, name string, g grant) *trial {
	p := probe.New(ctx, s.server, name)
	p.Prefix, p.Signed, p.ByClients = g.prefix, g.signed, g.has&publishes != 0
	return &trial{Probe: p, grant: g, random: s.random(name), steps: s.Steps, patience: s.Patience}
}

// check is one of the table.
type check struct {
	name    string
	section string // of docs/protocol-rules.md: the anchor
	rule    string
	needs   need
	run     func(t *trial)
}

// judge makes a check.
func (s *suite) judge(ctx context.Context, c check) (r Result) {
	r = Result{
		Check: c.name, Status: Passed, Transport: s.server.Dialer.Kind.Name, Encoding: s.Encoding.String(), Section: c.section, Rule: c.rule,
	}
	grant, missing := s.choose(c.needs)
	if grant.prefix == "" && s.server.Dialer.Kind.OneWay {
		grant.prefix = s.Prefixes[0]
	}
	if missing != "" {
		r.Status, r.Text = Skipped, missing
		return r
	}
	t := newTrial(ctx, s, c.name, grant)
	defer t.Close()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case probe.Skip:
			r.Status, r.Text = Skipped, string(v)
		case probe.Failure:
			r.Status, r.Text, r.Transcript = Failed, v.Text, t.Script.Tail(transcriptLines)
			r.Section = cmp.Or(v.Section, r.Section)
		default:
			panic(v)
		}
	}()
	c.run(t)
	return r
}

// transcriptLines is how many messages a failure shows.
const transcriptLines = 16

// checks returns the table.
func checks() []check {
	return slices.Concat(
		connectChecks(), frameChecks(), commandChecks(), pingChecks(), subscribeChecks(), publishChecks(), deliveryChecks(),
		presenceChecks(), historyChecks(), positionChecks(),
		recoveryChecks(), lossChecks(), deltaChecks(), filterChecks(), mapChecks(), mapReturnChecks(), pollChecks(), tokenChecks(), subscriptionTokenChecks(), serverChecks(), limitChecks(), httpChecks(), wrappedChecks(),
		oneWayChecks(), randomChecks(),
	)
}
