// Package proxy asks the application's backend about events of clients, over HTTP or gRPC
// (docs/proxies.md). It knows neither the node nor the rules of channels: it makes one call, and
// says whether there is an answer.
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

// Events.
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

// table has, for each event, its name in metrics and logs, and its method of the gRPC service.
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

// String returns the name of the event, as in metrics and in config.ProxyUse.
func (e Event) String() string { return table[e].name }

func eventByName(name string) Event {
	for e := range table {
		if table[e].name == name {
			return Event(e)
		}
	}
	panic("proxy: there is no event " + name) // the configuration of a start finds it: it uses all names
}

// Request is a question to the backend. The requests of package message implement it.
type Request interface {
	AppendJSON(dst []byte) ([]byte, error)
	AppendProto(dst []byte) []byte
	SizeProto() int
}

// Response is where the backend's answer goes. The responses of package message implement it.
type Response interface {
	UnmarshalJSON(data []byte) error
	UnmarshalProto(data []byte) error
}

// Meter measures the calls of one proxy about one event. Its methods may be called from any
// goroutine.
type Meter interface {
	// Began counts a call that is under way.
	Began()
	// Ended says how long a call took that Began has counted, and whether it failed.
	Ended(took time.Duration, failed bool)
	// Opened counts a stream of a subscription.
	Opened()
	// Closed says that a stream has ended that Opened has counted, and whether it broke.
	Closed(broken bool)
}

// Tracer makes spans of calls. Its methods may be called from any goroutine.
type Tracer interface {
	// Begin begins the span of a call that is made with the returned context. The caller calls end with the error
	// of the call.
	Begin(ctx context.Context, c *Call) (_ context.Context, end func(err error))
	// Inject calls set with the headers, or the metadata, that tell the backend of the span of ctx.
	Inject(ctx context.Context, set func(name, value string))
}

// Call describes a call to a Tracer.
type Call struct {
	Event Event
	// Name of the proxy and Key of the configuration, as in Options. Protocol is http or grpc. Endpoint is the
	// configured one, without a password.
	Name, Key, Protocol, Endpoint string
	// Method is the full name of the method of a gRPC backend.
	Method string
}

// Options of a Proxy.
type Options struct {
	Event  Event
	Name   string        // of the proxy; default, or one of the section proxies
	Key    string        // the proxy's key in the configuration, for log lines
	Config *config.Proxy // validated; it must not change
	// Meter returns the meter of the proxy. Without it, nothing is measured.
	Meter func(protocol string, e Event, name string) Meter
	// Tracer makes spans of calls. Without it, calls are not traced.
	Tracer Tracer
	Log    *slog.Logger
}

// Proxy asks one backend about one kind of event. Its methods may be called from any goroutine.
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

// carrier brings requests to the backend.
type carrier interface {
	// prepare encodes a request. An error is about the request alone; the backend has no part in it.
	prepare(req Request) (attempt, error)
	close()
}

// attempt is an encoded request, which can be sent once.
type attempt interface {
	// send waits for the answer, until the deadline at the latest, or until ctx ends.
	send(ctx context.Context, deadline time.Time, from *From, res Response) error
	// release gives the memory of the attempt back.
	release()
}

// New returns a proxy. It does not look for the backend: the first call does. An error names the key below the key of
// the proxy.
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

// isHTTP tells how the backend is reached: by HTTP, or else by gRPC.
func isHTTP(endpoint string) bool {
	return strings.HasPrefix(endpoint, "http://") || strings.HasPrefix(endpoint, "https://")
}

// Name returns the proxy's name.
func (p *Proxy) Name() string { return p.name }

// Key returns the proxy's key in the configuration, for log lines.
func (p *Proxy) Key() string { return p.guard.key }

// Binary tells whether payloads go out as base64.
func (p *Proxy) Binary() bool { return p.config.BinaryEncoding }

// WantsMeta tells whether requests have the connection's meta.
func (p *Proxy) WantsMeta() bool { return p.config.IncludeConnMeta }

// Close closes the connections to the backend. Calls that are under way may fail, and streams break.
func (p *Proxy) Close() { p.carrier.close() }

// retire waits until all streams have ended, and calls Close. The proxy is not asked any more.
func (p *Proxy) retire() {
	<-p.streams.none()
	p.Close()
}

// Call asks the backend, and waits for its answer or until the timeout of the proxy. from is the
// client that the call is about; nil if there is none. ctx is the client's: if it ends, so does
// the call, and Call returns the error of ctx. ErrNotJSON says that req cannot be sent, so that no call was made. Any other
// error says why there is no answer. It has been counted and, as far as docs/proxies.md says so, logged.
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

// fallible is a response that counts as none if it has an error.
type fallible interface{ Failure() error }

// ask calls send for an answer within the bounds of the guard, measures it, and traces it as c. res may be nil.
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

// ErrNotJSON is why there is no call if a payload of the request is not JSON, and the proxy has no binary_encoding.
var ErrNotJSON = errors.New("the request cannot be written as JSON, see binary_encoding")

// Why there is no answer, beside the errors of the network.
var (
	errTimeout = errors.New("the backend did not answer within the timeout")
	errOpen    = errors.New("the backend is not asked for now, because the latest calls to it failed")
	errQueue   = errors.New("too many calls wait for the backend already")
	errTurn    = errors.New("the call waited for others to end until the timeout was over")
)

// refuse makes res an answer that refuses. It reports false if res cannot be one.
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
