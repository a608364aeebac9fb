// Package queues executes server API commands that come as messages of queues (docs/consumers.md): it decodes them,
// keeps their order, and decides whether a message is done, must be tried again, or is given up. Packages below it, one
// for each kind of queue, receive and acknowledge the messages.
package queues

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/services"
)

// Source receives messages from a queue and gives them to a Processor.
type Source interface {
	// Connect checks that the queue can be used, within seconds unless ctx has a deadline. If an option is to blame, the
	// error is an *OptionError.
	Connect(ctx context.Context) error
	// Run consumes until ctx ends, then finishes its work and returns nil. An error means that the source cannot go on;
	// faults that may pass are no errors. Received messages are executed and acknowledged with work, which ends only
	// when the server has no time left.
	Run(ctx, work context.Context, p *Processor) error
	// Close closes connections. It is called after Run, or if Connect failed.
	Close()
	// Probe tells whether Connect and Run would succeed. It is called in place of them, changes nothing, takes no
	// message, and closes its connections. Errors are as in Connect.
	Probe(ctx context.Context) error
	// KeepDeadLetter puts a message that was given up where dead_letter of the consumer says. It is called while Run runs.
	KeepDeadLetter(ctx context.Context, m *Message, reason error) error
}

// Meter counts the work of a consumer. Any goroutine calls it.
type Meter interface {
	// Processed counts messages that are done: executed, skipped or given up.
	Processed(n int)
	// Failed counts a failed attempt to execute a message, or to use the queue.
	Failed()
	// GaveUp counts messages that were not executed and will not be tried again.
	GaveUp(n int)
	// Lag is how many messages of a stream or partition wait.
	Lag(part string, messages int64)
}

// Tracer makes spans of messages. Any goroutine calls it.
type Tracer interface {
	// Begin begins the span of a message whose command is executed with the returned context. The attributes of the
	// message may name the trace of its sender. The caller calls end with the error of the command.
	Begin(ctx context.Context, msg *Message, m api.Method, r api.Request) (_ context.Context, end func(err error))
	// BeginBatch is Begin for messages whose publications, to as many channels, are executed together, with one context.
	BeginBatch(ctx context.Context, messages []*Message, publications []api.Command) (_ context.Context, ends []func(err error))
}

// NoMeter counts nothing.
type NoMeter struct{}

// Processed implements Meter.
func (NoMeter) Processed(int) {}

// Failed implements Meter.
func (NoMeter) Failed() {}

// GaveUp implements Meter.
func (NoMeter) GaveUp(int) {}

// Lag implements Meter.
func (NoMeter) Lag(string, int64) {}

// Config of a Processor.
type Config struct {
	Name     string
	Executor *api.Executor
	Commands api.Observer
	Meter    Meter
	Tracer   Tracer
	// Mode, if set and enabled, takes payloads as the data of publications.
	Mode *config.PublicationDataMode
	// Ordered stops at the first message that must be tried again, so that later messages do not overtake it.
	Ordered bool
	// RetryTime is how long a message is tried again before it is given up; 0: for ever.
	RetryTime time.Duration
	// DeadLetter, if set, keeps a message that was given up. If it fails, the message is tried again.
	DeadLetter func(ctx context.Context, m *Message, reason error) error
	// Logger is wrapped by logging.Wrap; nil: slog.Default().
	Logger *slog.Logger
}

// Message is a message of a queue.
type Message struct {
	// ID identifies the message in its queue, also when it comes again.
	ID string
	// Method is the API method, if the queue has it outside of the payload.
	Method string
	// Payload must not be changed after the message was processed: it may be referred to.
	Payload []byte
	// Attributes are headers, fields, attributes or properties, as the queue calls them.
	Attributes []Attribute
	// Group, if set, names messages that wait for each other.
	Group string
	// Broken, if set, says why the source could not find the payload. The message is refused.
	Broken  error
	Outcome Outcome

	err error
}

// Attribute is a named value beside a payload.
type Attribute struct{ Key, Value string }

func (m *Message) attribute(key string) string {
	if key != "" {
		for i := range m.Attributes {
			if m.Attributes[i].Key == key {
				return m.Attributes[i].Value
			}
		}
	}
	return ""
}

// Outcome tells the source how to treat a message.
type Outcome uint8

const (
	// Pending: a message before it must be tried again.
	Pending Outcome = iota
	// Done: the message is executed, skipped or given up. The source acknowledges it.
	Done
	// Retry: the message failed, and must be processed again.
	Retry
)

// Processor executes messages. Any goroutine may call its methods.
type Processor struct {
	cfg Config
	log *slog.Logger

	mu          sync.Mutex
	failing     map[string]time.Time // since when messages fail, by ID
	lastSuccess time.Time
}

// maxFailing bounds the messages that are remembered as failing. Further ones are tried again for ever.
const maxFailing = 10_000

// NewProcessor returns a processor.
func NewProcessor(c Config) *Processor {
	return &Processor{cfg: c, log: logging.Wrap(c.Logger).With("consumer", c.Name), failing: make(map[string]time.Time)}
}

// Meter returns Config.Meter, for the counts of the source itself.
func (p *Processor) Meter() Meter { return p.cfg.Meter }

// Log returns the logger, which names the consumer.
func (p *Processor) Log() *slog.Logger { return p.log }

// Process executes messages in their order and sets the Outcome of each.
func (p *Processor) Process(ctx context.Context, messages []*Message) {
	r := run{p: p, ctx: ctx}
	for _, m := range messages {
		m.Outcome, m.err = Pending, nil
	}
	for _, m := range messages {
		r.add(m)
	}
	r.flush()
	p.settle(ctx, messages)
}

// Try repeats Process for messages that are not done: up to retries times, after pauses, until ctx ends.
func (p *Processor) Try(ctx, work context.Context, messages []*Message, retries int) {
	p.Process(work, messages)
	for retry := 1; retry <= retries && !AllDone(messages); retry++ {
		if !services.Sleep(ctx, services.Backoff(retry)) {
			return
		}
		var left []*Message
		for _, m := range messages {
			if m.Outcome != Done {
				left = append(left, m)
			}
		}
		p.Process(work, left)
	}
}

func (p *Processor) settle(ctx context.Context, messages []*Message) {
	done := 0
	for _, m := range messages {
		switch {
		case m.Outcome == Done && m.err == nil:
			done++
			p.recovered(m)
		case m.Outcome == Done: // it was refused
			if p.giveUp(ctx, m) {
				done++
			}
		case m.Outcome == Retry:
			p.cfg.Meter.Failed()
			if p.expired(m) && p.giveUp(ctx, m) {
				done++
			}
		}
	}
	if done > 0 {
		p.cfg.Meter.Processed(done)
	}
}

func (p *Processor) recovered(m *Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastSuccess = time.Now()
	if len(p.failing) > 0 {
		delete(p.failing, m.ID)
	}
}

// expired tells whether a failed message has been tried long enough. If messages do not wait for each other, another one
// must have succeeded meanwhile: if all of them fail, the messages are not the reason.
func (p *Processor) expired(m *Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, known := p.failing[m.ID]
	if !known {
		if len(p.failing) < maxFailing {
			p.failing[m.ID] = time.Now()
		}
		p.log.Error("message failed, it will be tried again", "message", m.ID, "error", m.err)
		return false
	}
	waitedFor := p.cfg.Ordered || m.Group != ""
	return p.cfg.RetryTime > 0 && time.Since(since) >= p.cfg.RetryTime && (waitedFor || p.lastSuccess.After(since))
}

// giveUp returns false if the message could not be kept as a dead letter; then it must be tried again.
func (p *Processor) giveUp(ctx context.Context, m *Message) bool {
	if p.cfg.DeadLetter != nil {
		if err := p.cfg.DeadLetter(ctx, m, m.err); err != nil {
			p.log.Error("message cannot be kept as a dead letter, trying again", "message", m.ID, "error", err)
			p.cfg.Meter.Failed()
			m.Outcome = Retry
			return false
		}
	}
	if m.Outcome == Retry {
		p.log.Error("message fails for too long, giving up", "message", m.ID, "method", m.Method,
			"key", "consumers[].retry_time", "error", m.err)
	}
	m.Outcome = Done
	p.mu.Lock()
	delete(p.failing, m.ID)
	p.mu.Unlock()
	p.cfg.Meter.GaveUp(1)
	return true
}

// AllDone reports whether all messages are done.
func AllDone(messages []*Message) bool {
	for _, m := range messages {
		if m.Outcome != Done {
			return false
		}
	}
	return true
}

// Failed counts a failure, logs the first one of an outage, and returns the pause before the next attempt.
func (p *Processor) Failed(o *logging.Outage, what string, err error) time.Duration {
	p.cfg.Meter.Failed()
	n := o.Fail(err)
	if n == 1 {
		p.log.Error(what+" failed, trying again", "error", err)
	}
	return services.Backoff(n)
}

// Works ends an outage.
func (p *Processor) Works(o *logging.Outage, what string) {
	if n, _ := o.End(); n > 0 {
		p.log.Info(what+" works again", "failures", n)
	}
}

// errSkipped marks messages that are acknowledged without being executed, and are no dead letters.
var errSkipped = errors.New("skipped")

func describe(s string) string { return fmt.Sprintf("%.100q", strings.ToValidUTF8(s, "?")) }
