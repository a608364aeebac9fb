package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

var (
	errNotConnected = errors.New("redis: not connected")
	errClosed       = errors.New("redis: closed")
)

// Engine is a broker and a presence manager that share their connections: one for commands and one for PUB/SUB per shard
// (in a Cluster one for commands per node, and with sharded PUB/SUB one more per partition). Only a broker that runs has
// connections for PUB/SUB. Any goroutine may call the methods.
type Engine struct {
	cfg      Config
	broker   *Broker
	presence *Presence

	connecting chan struct{} // has an element while a Connect is under way

	mu     sync.Mutex
	closed bool
	shards []*shard           // nil before Connect
	cancel context.CancelFunc // ends the Connect under way
}

// New returns an engine that is not connected yet. If the configuration is wrong, the error names the field.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, connecting: make(chan struct{}, 1), cancel: func() {}}
	e.broker = newBroker(e)
	e.presence = newPresence(e)
	return e, nil
}

// Broker returns the broker of the engine, a *Broker. Its Run connects the engine, its Close closes it.
func (e *Engine) Broker() broker.Broker { return e.broker }

// Presence returns the presence manager of the engine. It works from Connect (or Run of the broker) to Close.
func (e *Engine) Presence() *Presence { return e.presence }

// Connect connects to all shards and checks that they meet the needs of the configuration. It tries for
// Config.StartTimeout, and no longer than until ctx ends; it fails at once if a shard refuses the user, the password or
// the database.
func (e *Engine) Connect(ctx context.Context) error {
	_, err := e.connect(ctx)
	return err
}

// Close closes the connections. Calls under way and later ones fail. Closing again is fine. If the broker runs, close
// the broker instead, which closes the engine as well.
func (e *Engine) Close(context.Context) error {
	e.mu.Lock()
	shards := e.shards
	e.shards, e.closed = nil, true
	e.cancel()
	e.mu.Unlock()
	closeAll(shards)
	return nil
}

// Mode is for logs: standalone, sentinel, cluster or, for example, sharded(3):cluster,sentinel-x2.
func (e *Engine) Mode() string {
	var runs []string
	for i := 0; i < len(e.cfg.Shards); {
		mode, n := e.mode(i), 0
		for ; i < len(e.cfg.Shards) && e.mode(i) == mode; i++ {
			n++
		}
		if n > 1 {
			mode = fmt.Sprintf("%s-x%d", mode, n)
		}
		runs = append(runs, mode)
	}
	if len(e.cfg.Shards) == 1 {
		return runs[0]
	}
	return fmt.Sprintf("sharded(%d):%s", len(e.cfg.Shards), strings.Join(runs, ","))
}

func (e *Engine) mode(i int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	mode := e.cfg.Shards[i].Mode
	switch {
	case mode != Detect:
		return string(mode)
	case e.shards != nil && e.shards[i].client.Cluster():
		return string(Cluster)
	default:
		return string(Standalone)
	}
}

// connect takes long, while others call Close or find out that the engine is not connected yet.
func (e *Engine) connect(ctx context.Context) ([]*shard, error) {
	select {
	case e.connecting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.connecting }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shards, err := e.begin(cancel)
	if shards != nil || err != nil {
		return shards, err
	}
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		shards, err = e.open(ctx)
		return err
	})
	return e.connected(shards, err)
}

// begin returns the shards if the engine is connected. Close calls cancel.
func (e *Engine) begin(cancel context.CancelFunc) ([]*shard, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	e.cancel = cancel
	return e.shards, nil
}

func (e *Engine) connected(shards []*shard, err error) ([]*shard, error) {
	e.mu.Lock()
	closed := e.closed
	if err == nil && !closed {
		e.shards = shards
	}
	e.mu.Unlock()
	if closed {
		closeAll(shards) // nil after an error
		return nil, errClosed
	}
	if err != nil {
		return nil, err
	}
	return shards, nil
}

func (e *Engine) retry(ctx context.Context, try func(context.Context) error) error {
	r := enginekit.Retry{Timeout: e.cfg.StartTimeout, Hopeless: hopeless, Failed: func(err error) {
		e.cfg.Logger.Warn("redis cannot be reached, trying again", "error", err)
	}}
	return r.Do(ctx, try)
}

func hopeless(err error) bool {
	var missing *servers.MissingCommand
	if errors.As(err, &missing) || errors.Is(err, servers.ErrClosed) {
		return true
	}
	var failure *rueidis.RedisError
	if !errors.As(err, &failure) {
		return false
	}
	text := strings.TrimPrefix(failure.Error(), "ERR ")
	for _, prefix := range []string{"WRONGPASS", "NOAUTH", "NOPERM", "DB index", "SELECT is not allowed", "AUTH", "invalid password"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func (e *Engine) open(ctx context.Context) ([]*shard, error) {
	shards := make([]*shard, len(e.cfg.Shards))
	for i := range shards {
		shards[i] = &shard{index: i, timeout: e.cfg.Shards[i].IOTimeout}
	}
	err := enginekit.AtOnce(shards, func(s *shard) error { return s.open(ctx, &e.cfg) })
	if err != nil {
		closeAll(shards)
		return nil, err
	}
	return shards, nil
}

func closeAll(shards []*shard) {
	var group sync.WaitGroup
	for _, s := range shards {
		if s.client != nil {
			group.Go(s.client.Close)
		}
	}
	group.Wait()
}

func (e *Engine) live() ([]*shard, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.shards != nil:
		return e.shards, nil
	case e.closed:
		return nil, errClosed
	default:
		return nil, errNotConnected
	}
}

func shardOptions(cfg *Config, i int) servers.Options {
	s := &cfg.Shards[i]
	return servers.Options{
		Name:      fmt.Sprintf("redis shard %d (%s)", i, strings.Join(s.Addresses, ", ")),
		Addresses: s.Addresses, Sentinel: s.Mode == Sentinel, Cluster: s.Mode == Cluster, Detect: s.Mode == Detect,
		User: s.User, Password: s.Password, DB: s.DB, ClientName: s.ClientName, TLS: s.TLS,
		SentinelMaster: s.SentinelMaster, SentinelUser: s.SentinelUser, SentinelPassword: s.SentinelPassword,
		SentinelClientName: s.SentinelClientName, SentinelTLS: s.SentinelTLS,
		ConnectTimeout: s.ConnectTimeout, IOTimeout: s.IOTimeout, FlushDelay: s.FlushDelay,
		Dial: s.Dial, ForceRESP2: s.ForceRESP2,
		ReplicaReads: cfg.PresenceFromReplicas, Logger: cfg.Logger,
	}
}
