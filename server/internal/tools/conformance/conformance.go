// Package conformance judges a server of the client protocol from the outside (docs/conformance.md): by a table of
// checks, each of a rule of docs/protocol-rules.md, and by random conversations that a model foresees. It finds out the
// permissions of channels itself, and skips, with the reason, a check for which no channel has the permissions.
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
	// URL of the endpoint, which determines the transport: ws or wss for WebSocket; http or https for streams. Paths end
	// with sse, sockjs or webtransport for these, and with uni_websocket, uni_sse or uni_http_stream for one-way
	// transports.
	URL string
	// Emulation is the endpoint for the commands of streams; empty: /emulation on the host of URL.
	Emulation string
	Encoding  protocol.Encoding
	TLS       *tls.Config
	// Prefixes of the names of channels; each stands for a namespace.
	Prefixes []string
	// Token of all connections. Sign, if set, signs others, which end after ttl (0: never). SignSubscription signs
	// subscription tokens.
	Token            string
	Sign             func(ttl time.Duration) (string, error)
	SignSubscription func(channel string, ttl time.Duration) (string, error)
	SignKeys         func(channel string, keys []string, ttl time.Duration) string
	User             string
	API              *apicall.Caller
	// The same Seed gives the same conversations.
	Seed uint64
	// Steps of each random conversation; 0: 150.
	Steps int
	// Timeout bounds the wait for any message that must come; 0: 5 s.
	Timeout time.Duration
	// Patience bounds the wait for messages after a time that the server announces, such as pings; 0: 60 s.
	Patience time.Duration
	Only     *regexp.Regexp
}

// Status of a check.
type Status string

// A check is skipped if the server lacks a feature that it needs.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result of a check.
type Result struct {
	Check     string `json:"check"`
	Status    Status `json:"status"`
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

const atOnce = 8

// Run makes the checks of one transport and encoding, and returns results in the order of the table. The error says why
// the server cannot be judged at all.
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

// Rules returns the rules of the checks.
func Rules() []Result {
	var out []Result
	for _, c := range checks() {
		out = append(out, Result{Check: c.name, Section: c.section, Rule: c.rule})
	}
	return out
}

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

// JSONOnly reports whether the transport of an endpoint has no Protobuf.
func JSONOnly(url string) (bool, error) {
	kind, err := talk.KindOf(url)
	return talk.JSONOnly(kind), err
}

// random depends on the seed and the name, not on the selection of checks.
func (s *suite) random(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it does not fail
	return rand.New(rand.NewPCG(s.Seed, h.Sum64()))
}

type client = probe.Client

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

type check struct {
	name    string
	section string // of docs/protocol-rules.md: the anchor
	rule    string
	needs   need
	run     func(t *trial)
}

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

const transcriptLines = 16

func checks() []check {
	return slices.Concat(
		connectChecks(), frameChecks(), commandChecks(), pingChecks(), subscribeChecks(), publishChecks(), deliveryChecks(),
		presenceChecks(), historyChecks(), positionChecks(),
		recoveryChecks(), lossChecks(), deltaChecks(), filterChecks(), mapChecks(), mapReturnChecks(), pollChecks(), tokenChecks(), subscriptionTokenChecks(), serverChecks(), limitChecks(), httpChecks(), wrappedChecks(),
		oneWayChecks(), randomChecks(),
	)
}
