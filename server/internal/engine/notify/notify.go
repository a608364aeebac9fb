// Package notify receives notifications from applications, by PUB/SUB of Redis or NATS: a node asks for these keys of
// shared poll channels at once (docs/shared-poll.md).
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/services"
)

const section = "shared_poll.notification"

const (
	// A larger message is ignored.
	maxMessage   = 1 << 20
	maxItems     = 10_000
	startTimeout = 5 * time.Second
)

// Received is the result of a message.
type Received struct {
	Malformed bool
	// Tracked counts keys that a client of this node tracks, Ignored other keys, Invalid items that cannot name a key.
	Tracked, Ignored, Invalid int
}

// Config of a Receiver.
type Config struct {
	// Notify makes the node ask for keys of a channel, and returns the number of tracked keys. It must not block.
	Notify func(channel string, keys ...string) (tracked int)
	// Observe, if set, is called on the goroutine that receives.
	Observe func(*Received)
	// Logger is wrapped by logging.Wrap; nil: slog.Default().
	Logger *slog.Logger
}

// Receiver receives notifications from Start to Close.
type Receiver struct {
	cfg        Config
	log        *slog.Logger
	name       string // of the PUB/SUB channel
	maxChannel int
	source     source
	outage     logging.Outage
}

type source interface {
	// start returns when the subscription is there. Errors are as in queues.Source.Connect.
	start(ctx context.Context, r *Receiver) error
	close()
}

// New returns the receiver that a configuration describes, nil for none. It connects to nothing. Errors name the key.
func New(of *config.Config, cfg Config) (*Receiver, error) {
	n := &of.SharedPoll.Notification
	if !n.Enabled {
		return nil, nil
	}
	r := &Receiver{cfg: cfg, log: logging.Wrap(cfg.Logger), name: n.Channel, maxChannel: of.Channel.MaxLength}
	switch n.Type {
	case engines.TypeRedis:
		shards, err := services.RedisShards(&n.Redis)
		if err != nil {
			return nil, fmt.Errorf("%s.redis.%w", section, err)
		}
		if len(shards) != 1 {
			return nil, fmt.Errorf("%s.redis.%s: there must be one shard, not %d", section, services.AddressKey(&n.Redis), len(shards))
		}
		r.source = &redisSource{shard: shards[0], addressKey: services.AddressKey(&n.Redis)}
	case engines.TypeNATS:
		server, err := services.NATSOf(&n.NATS)
		if err != nil {
			return nil, fmt.Errorf("%s.nats.%w", section, err)
		}
		r.source = &natsSource{server: server}
	default:
		return nil, fmt.Errorf("%s.type: unknown type", section)
	}
	return r, nil
}

// Start connects and subscribes, within seconds unless ctx has a deadline. After an error, which names the key, nothing
// is left running. A nil Receiver has nothing to start.
func (r *Receiver) Start(ctx context.Context) error {
	if r == nil {
		return nil
	}
	ctx, cancel := services.Bound(ctx, startTimeout)
	defer cancel()
	err := r.source.start(ctx, r)
	if err == nil {
		return nil
	}
	r.source.close()
	if _, named := errors.AsType[*services.OptionError](err); named {
		return fmt.Errorf("%s.%w", section, err)
	}
	return fmt.Errorf("%s: %w", section, err)
}

// Close unsubscribes. Notify may still be called for a message that has come before.
func (r *Receiver) Close() {
	if r != nil {
		r.source.close()
	}
}

// lost logs the first failure of an outage, and returns how many there were.
func (r *Receiver) lost(err error) (failures int) {
	if failures = r.outage.Fail(err); failures == 1 {
		r.log.Error("notifications of shared poll keys do not come, trying again: until then changes come with the next interval", "key", section, "error", err)
	}
	return failures
}

func (r *Receiver) back() {
	if failures, _ := r.outage.End(); failures > 0 {
		r.log.Info("notifications of shared poll keys come again", "key", section)
	}
}

type message struct {
	Items []item `json:"items"`
}

type item struct {
	Channel string `json:"channel"`
	Key     string `json:"key"`
}

var (
	errNoItems   = errors.New("it has no items")
	errNoChannel = errors.New("it has no channel")
	errNoKey     = errors.New("it has no key")
)

func decode(data []byte) ([]item, error) {
	if len(data) > maxMessage {
		return nil, fmt.Errorf("%d bytes are more than %d", len(data), maxMessage)
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	switch n := len(m.Items); {
	case n == 0:
		return nil, errNoItems
	case n > maxItems:
		return nil, fmt.Errorf("%d items are more than %d", n, maxItems)
	}
	return m.Items, nil
}

func (r *Receiver) check(i *item) error {
	switch {
	case i.Channel == "":
		return errNoChannel
	case i.Key == "":
		return errNoKey
	case len(i.Channel) > r.maxChannel:
		return fmt.Errorf("a channel of %d bytes is longer than channel.max_length, %d", len(i.Channel), r.maxChannel)
	case len(i.Key) > channel.MaxKeyLength:
		return fmt.Errorf("a key of %d bytes is longer than %d", len(i.Key), channel.MaxKeyLength)
	}
	return nil
}

func (r *Receiver) take(data []byte) {
	var done Received
	items, err := decode(data)
	if err != nil {
		done.Malformed = true
		r.log.Warn("a notification of shared poll keys is ignored", "pub_sub_channel", r.name, "reason", err)
	}
	var invalid error // the first one
	keys := make(map[string][]string, 1)
	for n := range items {
		i := &items[n]
		if err := r.check(i); err != nil {
			if done.Invalid++; invalid == nil {
				invalid = err
			}
			continue
		}
		keys[i.Channel] = append(keys[i.Channel], i.Key)
	}
	if invalid != nil {
		r.log.Warn("items of a notification of shared poll keys are ignored", "pub_sub_channel", r.name, "items", done.Invalid, "reason", invalid)
	}
	for ch, list := range keys {
		tracked := r.cfg.Notify(ch, list...)
		done.Tracked += tracked
		done.Ignored += len(list) - tracked
	}
	if r.cfg.Observe != nil {
		r.cfg.Observe(&done)
	}
}
