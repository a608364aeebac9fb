package metrics

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/server/api"
)

// API exports the commands of the server API that come in one way, "http" say. Their
// observer allocates nothing, and looks up nothing, for a command that succeeds.
func (r *Registry) API(protocol string) api.Observer {
	o := &apiObserver{
		protocol:  protocol,
		durations: r.durations("api", "command_duration_seconds", "Time that a command of the server API took", defaultBuckets, "protocol", "method"),
		errors:    r.counters("api", "command_errors_total", "Errors of commands of the server API, by code or stage.", "protocol", "method", "error"),
		took:      make([]atomic.Pointer[duration], len(api.Methods())),
	}
	return o
}

type apiObserver struct {
	protocol  string
	durations *durations
	errors    *prometheus.CounterVec
	// took has the durations of the methods that were in use so far.
	took []atomic.Pointer[duration]
	mu   sync.Mutex // of additions to took
}

// broadcastPublish stands for the channels of a broadcast.
const broadcastPublish = "broadcast_publish"

// Executed implements api.Observer.
func (o *apiObserver) Executed(m api.Method, took time.Duration, res api.Result, err error) {
	d := o.took[m].Load()
	if d == nil {
		d = o.first(m)
	}
	d.observe(took)
	switch {
	case err != nil:
		o.add(m.String(), place(api.AsError(err)), 1)
	case m == api.MethodBroadcast:
		var t tally
		t.broadcast(res)
		o.report(broadcastPublish, &t)
	case m == api.MethodBatch:
		o.batch(res)
	}
}

// first finds the durations of a method that was not in use before.
func (o *apiObserver) first(m api.Method) *duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.took[m].Load()
	if d == nil { // else somebody else was faster
		d = o.durations.with(o.protocol, m.String())
		o.took[m].Store(d)
	}
	return d
}

// Failed implements api.Observer.
func (o *apiObserver) Failed(m api.Method, stage api.Stage) {
	o.errors.WithLabelValues(o.protocol, m.String(), string(stage)).Inc()
}

// batch: the errors of its commands are the batch's, which has none of its own.
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

// codes of errors; those of extensions are told together.
var codes = [...]*api.Error{
	api.ErrInternal, api.ErrUnknownChannel, api.ErrNotFound, api.ErrBadRequest,
	api.ErrNotAvailable, api.ErrUnrecoverablePosition, api.ErrConflict,
}

// place of an error in a tally.
func place(err *api.Error) int {
	for i, e := range codes {
		if e.Code == err.Code {
			return i
		}
	}
	return len(codes)
}

func (o *apiObserver) add(method string, place, n int) {
	code := Other
	if place < len(codes) {
		code = strconv.FormatUint(uint64(codes[place].Code), 10)
	}
	o.errors.WithLabelValues(o.protocol, method, code).Add(float64(n))
}

// tally counts errors, which can be as many as a request has channels.
type tally [len(codes) + 1]int

func (t *tally) add(err *api.Error) { t[place(err)]++ }

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
	for place, n := range t {
		if n > 0 {
			o.add(method, place, n)
		}
	}
}
