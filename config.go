package gyro

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/tap"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Config of a node. With the zero value, everything is in memory and there are no handlers: clients can only connect,
// with the credentials of SetCredentials.
//
// A field that is 0 takes its default. A negative value switches a feature off where the field's comment says so.
type Config struct {
	Handlers Handlers
	// Interceptors are around every handler, the first outermost. Default: none.
	Interceptors []Interceptor
	// Observer is told of the actions of clients, and of the node's work for them, for metrics and traces. Default:
	// none.
	Observer observe.Observer
	// Engine sets Broker, Presence and Controller in one; such a field replaces the engine's part. With a Broker of its
	// own, the node does not run the engine: the program connects it before Run and closes it after Shutdown. It is an
	// error if no part is used. Default: everything in memory.
	Engine Engine
	// Broker carries and keeps publications. Default: the Engine's broker.
	Broker broker.Broker
	// Presence knows the clients in each channel. Default: the presence manager of the Engine, else of the broker's
	// traits. If there is none, presence is in memory with a local broker, and otherwise not available (error 108),
	// because each node would know its own clients alone.
	Presence broker.PresenceManager
	// Controller carries control messages between nodes, which makes them a cluster. The node does not close it.
	// Default: the controller of the broker's traits; without one the node is alone.
	Controller broker.Controller
	// Channel returns the options of a channel, for its publications and subscriptions. EveryChannel makes such a
	// function. The node calls it for each of them, from many goroutines and on its loops: it must be fast, must not
	// block, and must always return the same for a channel, so it should look at the name alone. All nodes of a cluster
	// need the same function. Options that contradict each other are an error of each publish and subscribe. Default:
	// nil, no options.
	Channel func(channel string) ChannelOptions
	// Binary allows payloads that are not JSON in all channels (ChannelOptions.Binary), and in Credentials.Info,
	// RefreshReply.Info, and the data of connect replies, RPC replies and Client.Send. Default: false.
	Binary bool
	// Logger of the node, which wraps it: see logging.Wrap. Default: slog.Default().
	Logger *slog.Logger

	// Name of the node, shown in Info. Default: the UID.
	Name string
	// Version is sent to clients and shown in Info. Default: empty.
	Version string

	// PingInterval between pings to a client, exact to 50 ms; the connect result has whole seconds, at least 1. Default
	// 25 s; negative: no pings.
	PingInterval time.Duration
	// PongTimeout is the time for the answer to a ping, less than PingInterval. Default 10 s; negative: clients need not
	// answer.
	PongTimeout time.Duration
	// StaleCloseDelay is the time for the connect command. Default 15 s.
	StaleCloseDelay time.Duration
	// ExpiredCloseDelay is the time to refresh an expired connection, ExpiredSubCloseDelay a subscription. Default 25 s.
	ExpiredCloseDelay, ExpiredSubCloseDelay time.Duration
	// PresenceUpdateInterval is how often the node renews presence and looks for expired subscriptions. Default 25 s.
	PresenceUpdateInterval time.Duration
	// PositionCheckDelay is how often the node compares the positions of subscriptions with the top of the stream: one
	// read of the engine per channel and node, spread over the delay. A subscription whose position has not moved since
	// and is not the top ends with 2500, or disconnect 3010 if it is server-side (docs/scaling.md). At least 2.56 s;
	// default 40 s; negative: only after a loss that the broker reports.
	PositionCheckDelay time.Duration
	// PositionMaxTimeLag is the greatest age of a publication at delivery; an older one makes positioned subscribers
	// subscribe again. Default 0: no limit.
	PositionMaxTimeLag time.Duration

	// ChannelLimit is the most subscriptions of a connection. Default 128.
	ChannelLimit int
	// ChannelMaxLength is the most bytes of a channel's name in commands and server-side subscriptions; a longer one is
	// error 107. Default 255.
	ChannelMaxLength int
	// QueueMaxSize is the most bytes that wait for a connection. With more, or a larger single message, the client is
	// disconnected with 3008. A larger reply becomes error 106, and a recovery with a larger reply fails. Default 1 MiB.
	QueueMaxSize int
	// UserConnectionLimit is the most connections of a user on this node; a further one is refused with 3504. Anonymous
	// users are exempt. Default 0: no limit.
	UserConnectionLimit int
	// HistoryLimit is the most publications of a history request, RecoveryLimit of a recovery. Default 0: no limit.
	HistoryLimit, RecoveryLimit int
	// Concurrency is how many handlers run for one client at once. With more than 1, replies to publish, presence,
	// history and RPC commands come in any order; connect, subscribe, unsubscribe and refresh keep theirs. Default 1.
	Concurrency int
	// CommandLimit is how many commands of a client may be in progress; the node stops reading from it then. Default 64.
	CommandLimit int
	// EngineConcurrency is how many calls may be in progress at an engine that is not in this process: subscribes and
	// reads of history, and as many at the presence manager, so that the clients of a failed node do not overrun it.
	// Further calls wait for 10 s at most, and fail with ErrorTooManyRequests. With any limit, identical reads share a
	// round trip. Default 512; negative: no limit.
	EngineConcurrency int
	// PollConcurrency is how many calls of SharedPoll.Poll run at once; further ones wait. Default 64.
	PollConcurrency int
	// ConnectDisconnects are what clients of one-way transports get if they cannot connect, by the code of the error.
	// Default, also for other codes: 3005 for 109 and 110, 3013 for 111, 3507 for 103, else 3004.
	ConnectDisconnects map[uint32]protocol.Disconnect
	// SendTime adds the server's time to the connect result. Default: false.
	SendTime bool
	// InlineHandlers calls the handlers Connecting, Subscribe and CacheEmpty without a goroutine, which makes new
	// connections cheaper. Other connections wait meanwhile, so a handler whose event says Inline must not wait for I/O,
	// for another goroutine, or for a method of the node that takes a context. Instead it returns ErrWouldBlock, and the
	// node calls it once more, with Inline unset. Default: false.
	InlineHandlers bool
	// Clock returns the time of day. The node uses it for expirations and for the time of publications, not for durations.
	// Many goroutines call Clock, at the same time and often. Default: time.Now.
	Clock func() time.Time
	// FlightRecorder is the most memory of Inspector.Flight, in bytes. Default 8 MiB; negative: nothing is recorded.
	FlightRecorder int
	// Expressions compiles conditions of inspect.Filter. Default: filters with an Expression are errors.
	Expressions func(text string) (inspect.Condition, error)
	// Loops is how many goroutines own the connections of clients. Default: one for each processor that Go uses
	// (GOMAXPROCS).
	Loops int
	// GoroutineDriver gives every connection goroutines, also where loops could watch its socket, for diagnosis.
	// Default: false.
	GoroutineDriver bool
}

// pendingSize is how many bytes of commands may wait for one client.
const pendingSize = 1 << 20

func (c Config) withDefaults() (Config, error) {
	c.PingInterval = cmp.Or(c.PingInterval, 25*time.Second)
	c.PongTimeout = cmp.Or(c.PongTimeout, 10*time.Second)
	c.StaleCloseDelay = cmp.Or(c.StaleCloseDelay, 15*time.Second)
	c.ExpiredCloseDelay = cmp.Or(c.ExpiredCloseDelay, 25*time.Second)
	c.ExpiredSubCloseDelay = cmp.Or(c.ExpiredSubCloseDelay, 25*time.Second)
	c.PresenceUpdateInterval = cmp.Or(c.PresenceUpdateInterval, 25*time.Second)
	c.PositionCheckDelay = cmp.Or(c.PositionCheckDelay, 40*time.Second)
	c.ChannelLimit = cmp.Or(c.ChannelLimit, 128)
	c.ChannelMaxLength = cmp.Or(c.ChannelMaxLength, 255)
	c.QueueMaxSize = cmp.Or(c.QueueMaxSize, 1<<20)
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.CommandLimit = cmp.Or(c.CommandLimit, 64)
	c.EngineConcurrency = cmp.Or(c.EngineConcurrency, 512)
	c.PollConcurrency = cmp.Or(c.PollConcurrency, 64)
	c.FlightRecorder = cmp.Or(c.FlightRecorder, 8<<20)
	c.Loops = cmp.Or(c.Loops, runtime.GOMAXPROCS(0))
	c.Logger = logging.Wrap(c.Logger)
	return c, errors.Join(c.setEngines(), c.check())
}

func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gyro: "+format, args...)) }
	if c.PingInterval > 0 && c.PongTimeout >= c.PingInterval {
		bad("PongTimeout (%v) must be less than PingInterval (%v)", c.PongTimeout, c.PingInterval)
	}
	if i := slices.IndexFunc(c.Interceptors, func(i Interceptor) bool { return i == nil }); i >= 0 {
		bad("Interceptors[%d] must not be nil", i)
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"ChannelLimit", c.ChannelLimit}, {"ChannelMaxLength", c.ChannelMaxLength},
		{"QueueMaxSize", c.QueueMaxSize}, {"Concurrency", c.Concurrency}, {"CommandLimit", c.CommandLimit},
		{"PollConcurrency", c.PollConcurrency}, {"Loops", c.Loops},
	} {
		if f.value < 1 {
			bad("%s (%d) must be at least 1", f.name, f.value)
		}
	}
	return errors.Join(errs...)
}

func (c *Config) session(uid string, recorder *flightrecorder.Recorder) *session.Config {
	return &session.Config{
		NodeID: uid, Clocks: clocks.New(uid, c.Clock), Beat: beat.Of(uid), Taps: tap.New(uid), Epochs: recorder.Epochs(),
		Version: c.Version, SendTime: c.SendTime, PingInterval: c.PingInterval, PongTimeout: c.PongTimeout,
		StaleDelay: c.StaleCloseDelay, ExpiredDelay: c.ExpiredCloseDelay, ExpiredSubDelay: c.ExpiredSubCloseDelay,
		PresenceInterval: c.PresenceUpdateInterval, PositionMaxTimeLag: c.PositionMaxTimeLag,
		ChannelLimit: c.ChannelLimit, ChannelMaxLength: c.ChannelMaxLength, QueueMaxSize: c.QueueMaxSize,
		RecoveryLimit: c.RecoveryLimit, HistoryLimit: c.HistoryLimit, CommandLimit: c.CommandLimit, PendingMaxSize: pendingSize,
		ConnectDisconnects: c.ConnectDisconnects, Rounds: new(hub.Rounds),
		Handles: c.Handlers.present(),
	}
}

// present: each field of session.Handles has the name of a field of Handlers.
func (h *Handlers) present() (present session.Handles) {
	handlers, fields := reflect.ValueOf(h).Elem(), reflect.ValueOf(&present).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetBool(!handlers.FieldByName(fields.Type().Field(i).Name).IsNil())
	}
	return present
}
