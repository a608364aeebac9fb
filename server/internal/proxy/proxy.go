// Package proxy asks the application's backend about events of clients, over HTTP or gRPC (docs/proxies.md). It makes
// calls, and knows neither the node nor rules of channels.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// Event is a kind of question to a backend.
type Event uint8

const (
	Connect Event = iota
	Refresh
	Subscribe
	SubRefresh
	Publish
	RPC
	SubscribeStream
	MapPublish
	MapRemove
	SharedPollRefresh
	CacheEmpty
)

// table has the name of each event in metrics and logs, and its gRPC method.
var table = [...]struct{ name, method string }{
	Connect:           {"connect", "Connect"},
	Refresh:           {"refresh", "Refresh"},
	Subscribe:         {"subscribe", "Subscribe"},
	SubRefresh:        {"sub_refresh", "SubRefresh"},
	Publish:           {"publish", "Publish"},
	RPC:               {"rpc", "RPC"},
	SubscribeStream:   {"subscribe_stream", "SubscribeUnidirectional"},
	MapPublish:        {"map_publish", "MapPublish"},
	MapRemove:         {"map_remove", "MapRemove"},
	SharedPollRefresh: {"shared_poll_refresh", "SharedPollRefresh"},
	CacheEmpty:        {"cache_empty", "NotifyCacheEmpty"},
}

// String returns the name in metrics and in config.ProxyUse.
func (e Event) String() string { return table[e].name }

func eventByName(name string) Event {
	for e := range table {
		if table[e].name == name {
			return Event(e)
		}
	}
	panic("proxy: there is no event " + name) // the configuration of a start finds it: it uses all names
}

// Request is a request of package message.
type Request interface {
	AppendJSON(dst []byte) ([]byte, error)
	AppendProto(dst []byte) []byte
	SizeProto() int
}

// Response is a response of package message.
type Response interface {
	UnmarshalJSON(data []byte) error
	UnmarshalProto(data []byte) error
}

// Meter measures the calls of one proxy about one event. Any goroutine may call it.
type Meter interface {
	Began()
	// Ended ends a call that Began has counted.
	Ended(took time.Duration, failed bool)
	Opened()
	// Closed ends a stream that Opened has counted.
	Closed(broken bool)
}

// Tracer makes spans of calls. Any goroutine may call it.
type Tracer interface {
	// Begin begins a span. The call uses the returned context; end gets its error.
	Begin(ctx context.Context, c *Call) (_ context.Context, end func(err error))
	// Inject calls set with the headers or the metadata that name the span of ctx.
	Inject(ctx context.Context, set func(name, value string))
}

// Call describes a call for a Tracer.
type Call struct {
	Event Event
	// Protocol is http or grpc, Endpoint has no password; Name and Key are as in Options.
	Name, Key, Protocol, Endpoint string
	// Method is the full name of a gRPC method.
	Method string
}

// Options of a Proxy.
type Options struct {
	Event  Event
	Name   string        // of the proxy; default, or one of the section proxies
	Key    string        // the proxy's key in the configuration, for log lines
	Config *config.Proxy // validated; it must not change
	// Meter may be nil: nothing is measured.
	Meter func(protocol string, e Event, name string) Meter
	// Tracer may be nil: calls are not traced.
	Tracer Tracer
	Log    *slog.Logger
}

// Proxy asks one backend about one event. Any goroutine may call it.
type Proxy struct {
	event   Event
	name    string
	config  *config.Proxy
	forward forward
	meter   Meter
	tracer  Tracer // nil: calls are not traced
	traced  Call   // the description of all calls
	guard   *guard
	carrier carrier
	streams streams
}

type carrier interface {
	// prepare encodes a request. An error is about the request alone.
	prepare(req Request) (attempt, error)
	close()
}

// attempt is an encoded request that can be sent once.
type attempt interface {
	// send waits for the answer, until the deadline or until ctx ends.
	send(ctx context.Context, deadline time.Time, from *From, res Response) error
	release()
}

// New returns a proxy. The first call connects to the backend. An error names the key below the key of the proxy.
func New(o Options) (*Proxy, error) {
	p := &Proxy{event: o.Event, name: o.Name, config: o.Config, forward: newForward(o.Config), meter: unmeasured{}, tracer: o.Tracer}
	protocol := "grpc"
	var err error
	if isHTTP(o.Config.Endpoint) {
		protocol = "http"
		p.carrier, err = newHTTP(o.Config, &p.forward, o.Tracer)
	} else {
		p.carrier, err = newGRPC(o.Event, o.Config, &p.forward, o.Tracer)
		p.traced.Method = strings.TrimPrefix(service, "/") + table[o.Event].method
	}
	if err != nil {
		return nil, err
	}
	if o.Meter != nil {
		p.meter = o.Meter(protocol, o.Event, o.Name)
	}
	p.guard = newGuard(o)
	p.traced.Event, p.traced.Name, p.traced.Key = o.Event, o.Name, o.Key
	p.traced.Protocol, p.traced.Endpoint = protocol, p.guard.endpoint
	return p, nil
}

func isHTTP(endpoint string) bool {
	return strings.HasPrefix(endpoint, "http://") || strings.HasPrefix(endpoint, "https://")
}

// Name returns the proxy's name.
func (p *Proxy) Name() string { return p.name }

// Key returns the proxy's key in the configuration, for log lines.
func (p *Proxy) Key() string { return p.guard.key }

// Binary tells whether payloads are base64.
func (p *Proxy) Binary() bool { return p.config.BinaryEncoding }

// WantsMeta tells whether requests have the meta of the connection.
func (p *Proxy) WantsMeta() bool { return p.config.IncludeConnMeta }

// Close closes the connections to the backend. Running calls may fail, and streams break.
func (p *Proxy) Close() { p.carrier.close() }

// retire waits for the end of all streams, and calls Close.
func (p *Proxy) retire() {
	<-p.streams.none()
	p.Close()
}

// Call asks the backend, and waits for its answer at most for the timeout of the proxy. from is the client of the call;
// nil if there is none. If ctx ends, Call returns its error. ErrNotJSON: req cannot be sent. Any other error says why
// there is no answer, and was counted and logged (docs/proxies.md).
func (p *Proxy) Call(ctx context.Context, from *From, req Request, res Response) error {
	a, err := p.carrier.prepare(req)
	if err != nil {
		return &Failure{Event: p.event, Key: p.guard.key, Err: err}
	}
	defer a.release()
	return p.ask(ctx, &p.traced, res, func(ctx context.Context, deadline time.Time) error {
		return a.send(ctx, deadline, from, res)
	})
}

// fallible is a response with an error that counts as no answer.
type fallible interface{ Failure() error }

// ask runs send within the bounds of the guard, measures it, and traces it as c. res may be nil.
func (p *Proxy) ask(ctx context.Context, c *Call, res Response, send func(ctx context.Context, deadline time.Time) error) error {
	if p.tracer == nil {
		return p.measured(ctx, res, send)
	}
	ctx, end := p.tracer.Begin(ctx, c)
	err := p.measured(ctx, res, send)
	end(err)
	return err
}

func (p *Proxy) measured(ctx context.Context, res Response, send func(ctx context.Context, deadline time.Time) error) error {
	start := time.Now()
	p.meter.Began()
	err := p.guarded(ctx, start.Add(p.config.Timeout), send)
	if err != nil && ctx.Err() != nil {
		p.meter.Ended(time.Since(start), false)
		return ctx.Err()
	}
	if f, ok := res.(fallible); ok && err == nil {
		err = f.Failure()
	}
	p.meter.Ended(time.Since(start), err != nil)
	if err != nil {
		return &Failure{Event: p.event, Key: p.guard.key, Err: err}
	}
	return nil
}

func (p *Proxy) guarded(
	ctx context.Context, deadline time.Time, send func(ctx context.Context, deadline time.Time) error,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done, err := p.guard.enter(ctx, deadline)
	if err != nil {
		return err
	}
	err = send(ctx, deadline)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	done(err)
	return err
}

// Failure is a call without an answer.
type Failure struct {
	Event Event
	Key   string // of the proxy in the configuration
	Err   error
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("%s: the %s proxy: %v", f.Key, f.Event, f.Err) }

// Unwrap returns why there is no answer.
func (f *Failure) Unwrap() error { return f.Err }

// ErrNotJSON: a payload is not JSON, and the proxy has no binary_encoding.
var ErrNotJSON = errors.New("the request cannot be written as JSON, see binary_encoding")

var (
	errTimeout = errors.New("the backend did not answer within the timeout")
	errOpen    = errors.New("the backend is not asked for now, because the latest calls to it failed")
	errQueue   = errors.New("too many calls wait for the backend already")
	errTurn    = errors.New("the call waited for others to end until the timeout was over")
)

// refuse makes res an answer that refuses; false if res cannot be one.
func refuse(res Response, e *message.Error, d *message.Disconnect) bool {
	a, ok := res.(message.Answer)
	if ok {
		a.Refuse(e, d)
	}
	return ok
}

type unmeasured struct{}

func (unmeasured) Began()                    {}
func (unmeasured) Ended(time.Duration, bool) {}
func (unmeasured) Opened()                   {}
func (unmeasured) Closed(bool)               {}
