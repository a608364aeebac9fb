package metrics

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/metrics"
	"github.com/gyrohq/gyro/server/internal/api"
)

// OperatorProtocol is the label of commands that operators send by the admin interface.
const OperatorProtocol = "admin"

// API exports the commands of the server API that come by a protocol, such as "http". It is called once for each
// protocol. For a command that succeeds, the observer allocates nothing and looks nothing up.
func (r *Registry) API(protocol string) api.Observer {
	if r.commands == nil {
		r.commands = &commands{
			durations: r.Durations("api", "command_duration_seconds", "Time that a command of the server API took", nil, "protocol", "method"),
			errors:    r.counters("api", "command_errors_total", "Errors of commands of the server API, by code or stage.", "protocol", "method", "error"),
			calls:     r.Durations("api", "rpc_duration_seconds", "Time that an extension of the server API took", nil, "protocol", "method"),
		}
	}
	return &apiObserver{
		commands: r.commands, protocol: protocol, took: make([]atomic.Pointer[metrics.Duration], len(api.Methods())),
		called: make(map[string]*metrics.Duration),
	}
}

type commands struct {
	durations *metrics.Durations
	errors    *prometheus.CounterVec
	calls     *metrics.Durations
}

type apiObserver struct {
	*commands
	protocol string
	took     []atomic.Pointer[metrics.Duration]
	mu       sync.Mutex // held to add to took, and to use called
	called   map[string]*metrics.Duration
}

const broadcastPublish = "broadcast_publish"

// Executed implements api.Observer.
func (o *apiObserver) Executed(m api.Method, took time.Duration, res api.Result, err error) {
	d := o.took[m].Load()
	if d == nil {
		d = o.first(m)
	}
	d.Observe(took)
	switch {
	case err != nil:
		o.add(m.String(), codeIndex(api.AsError(err)), 1)
	case m == api.MethodBroadcast:
		var t tally
		t.broadcast(res)
		o.report(broadcastPublish, &t)
	case m == api.MethodBatch:
		o.batch(res)
	}
}

// Called implements api.Observer.
func (o *apiObserver) Called(extension string, took time.Duration) {
	o.mu.Lock()
	d := o.called[extension]
	if d == nil {
		d = o.calls.With(o.protocol, extension)
		o.called[extension] = d
	}
	o.mu.Unlock()
	d.Observe(took)
}

func (o *apiObserver) first(m api.Method) *metrics.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.took[m].Load()
	if d == nil { // else another goroutine has added it
		d = o.durations.With(o.protocol, m.String())
		o.took[m].Store(d)
	}
	return d
}

// Failed implements api.Observer.
func (o *apiObserver) Failed(m api.Method, stage api.Stage) {
	o.errors.WithLabelValues(o.protocol, m.String(), string(stage)).Inc()
}

// batch counts the errors of the commands: a batch itself has no error.
func (o *apiObserver) batch(res api.Result) {
	b, ok := res.(*api.BatchResponse)
	if !ok {
		return
	}
	var commands, channels tally
	for i := range b.Replies {
		switch r := b.Replies[i].Result.(type) {
		case *api.Error:
			commands.add(r)
		case *api.BroadcastResult:
			channels.broadcast(r)
		}
	}
	o.report(api.MethodBatch.String(), &commands)
	o.report(broadcastPublish, &channels)
}

// codes are the errors with a label of their own.
var codes = [...]*api.Error{
	api.ErrInternal, api.ErrUnknownChannel, api.ErrNotFound, api.ErrBadRequest,
	api.ErrNotAvailable, api.ErrUnrecoverablePosition, api.ErrConflict,
}

func codeIndex(err *api.Error) int {
	for i, e := range codes {
		if e.Code == err.Code {
			return i
		}
	}
	return len(codes)
}

func (o *apiObserver) add(method string, index, n int) {
	code := Other
	if index < len(codes) {
		code = strconv.FormatUint(uint64(codes[index].Code), 10)
	}
	o.errors.WithLabelValues(o.protocol, method, code).Add(float64(n))
}

// tally counts errors by codeIndex, as a request can have as many errors as channels.
type tally [len(codes) + 1]int

func (t *tally) add(err *api.Error) { t[codeIndex(err)]++ }

func (t *tally) broadcast(res api.Result) {
	b, ok := res.(*api.BroadcastResult)
	if !ok {
		return
	}
	for i := range b.Responses {
		if err := b.Responses[i].Error; err != nil {
			t.add(err)
		}
	}
}

func (o *apiObserver) report(method string, t *tally) {
	for index, n := range t {
		if n > 0 {
			o.add(method, index, n)
		}
	}
}
