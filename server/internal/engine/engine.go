// Package engine makes the brokers and presence managers of a configuration, and finds the ones of a channel.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/compose"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// Set has the engines of a server. Connect comes before the node runs, Close after the node has closed the broker.
type Set struct {
	Broker   broker.Broker
	Presence broker.PresenceManager
	// Controller, unless it is nil, replaces the controller of Broker.
	Controller broker.Controller
	// Brokers has the traits of each broker by its name, which is empty for the default broker and begins with
	// map_broker/ for brokers of maps.
	Brokers map[string]broker.Traits

	remote                    []connection
	sections                  []section // for the log
	brokerIndex, managerIndex map[slot]int
}

type section struct{ key, engine string }

// slot is a type of channels that an engine serves, with the name of the engine.
type slot struct {
	channels channelType
	name     string // of an element of the configuration's list; empty for the engine of the section for one
}

type channelType uint8

const (
	forChannels  channelType = iota // streams and all else that is no map
	forMaps                         // the sections map_broker and map_brokers
	forFullState                    // channels that show maps
)

func (s slot) label() string {
	if s.channels == forMaps {
		return "map_broker/" + s.name
	}
	return s.name
}

type connection struct {
	key    string
	engine connector
	server Server
}

type connector interface {
	Connect(ctx context.Context) error
	Close(ctx context.Context) error
}

// Server is the server of an engine. One of Redis, NATS and Postgres is set.
type Server struct {
	Key        string // of the section
	AddressKey string
	Redis      *redis.Config
	NATS       *nats.Config
	Postgres   *postgres.Config
}

// Servers returns the servers that Connect connects to, in that order.
func (s *Set) Servers() []Server {
	list := make([]Server, len(s.remote))
	for i := range s.remote {
		list[i] = s.remote[i].server
	}
	return list
}

func (m *maker) remember(server Server, engine connector) {
	m.set.remote = append(m.set.remote, connection{server.Key, engine, server})
}

// New makes the engines of a validated configuration, and connects to nothing. Errors name the key and show no secrets.
// The engines call routes for each operation, not before Connect.
func New(cfg *config.Config, routes func() *Assignment, log *slog.Logger) (*Set, error) {
	s := &Set{}
	m := maker{set: s, cfg: cfg, routes: routes, log: log}
	defaultBroker, defaultPresence, err := m.defaults()
	if err != nil {
		return nil, err
	}
	brokers := newNamed(defaultBroker)
	for i := range cfg.Brokers {
		b := &cfg.Brokers[i]
		if b.Enabled {
			brokers.add(slot{name: b.Name}, func() (broker.Broker, error) { return m.broker(config.Element("brokers", i, b.Name), &b.Broker) })
		}
	}
	m.maps(&brokers)
	m.fullState(&brokers)
	managers := newNamed(defaultPresence)
	for i := range cfg.PresenceManagers {
		p := &cfg.PresenceManagers[i]
		if p.Enabled {
			managers.add(slot{name: p.Name}, func() (broker.PresenceManager, error) {
				return m.presence(config.Element("presence_managers", i, p.Name), &p.PresenceManager)
			})
		}
	}
	if err := errors.Join(brokers.err, managers.err, m.controller()); err != nil {
		return nil, err
	}
	s.Brokers = make(map[string]broker.Traits)
	for of, i := range brokers.index {
		if of.channels == forMaps && i == 0 || of.channels == forFullState {
			continue // the default broker, and one without metrics
		}
		s.Brokers[of.label()] = brokers.list[i].Describe()
	}
	s.brokerIndex, s.managerIndex = brokers.index, managers.index
	s.Broker = compose.NewBroker(func(ch string) int { return routes().of(ch).broker }, brokers.list...)
	s.Presence = compose.NewPresence(func(ch string) int { return routes().of(ch).presence }, managers.list...)
	return s, nil
}

// named is a list of engines; the first is the default.
type named[T any] struct {
	list  []T
	index map[slot]int
	err   error
}

func newNamed[T any](byDefault T) named[T] {
	return named[T]{list: []T{byDefault}, index: map[slot]int{{}: 0}}
}

func (n *named[T]) add(of slot, create func() (T, error)) {
	made, err := create()
	if err != nil {
		n.err = errors.Join(n.err, err)
		return
	}
	n.index[of] = len(n.list)
	n.list = append(n.list, made)
}

// Connect connects the engines. The error names the section. The end of ctx ends attempts before start_timeout does.
func (s *Set) Connect(ctx context.Context) error {
	for _, c := range s.remote {
		if err := c.engine.Connect(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.key, err)
		}
	}
	return nil
}

// Close closes the broker and all connections. It may be called again.
func (s *Set) Close(ctx context.Context) error {
	errs := []error{s.Broker.Close(ctx)}
	for _, c := range s.remote {
		errs = append(errs, c.engine.Close(ctx))
	}
	return errors.Join(errs...)
}

// Describe returns attributes for the log, after Connect: the type of each section in use, and the mode of Redis, such
// as sharded(2):standalone-x2.
func (s *Set) Describe() []any {
	var out []any
	modes := make(map[string]string)
	for _, c := range s.remote {
		if e, ok := c.engine.(*redis.Engine); ok {
			modes[c.key] = e.Mode()
		}
	}
	for _, of := range s.sections {
		what := of.engine
		if mode, ok := modes[of.key+".redis"]; ok {
			what += " " + mode
		}
		out = append(out, of.key, what)
	}
	return out
}

const defaultPrefix = "centrifugo"

type maker struct {
	set    *Set
	cfg    *config.Config
	routes func() *Assignment
	log    *slog.Logger
}

// defaults does not make the engine of the section engine if both broker and presence_manager replace it.
func (m *maker) defaults() (b broker.Broker, p broker.PresenceManager, err error) {
	cfg := m.cfg
	if cfg.UsesEngine() {
		m.note("engine", cfg.Engine.Type)
		if cfg.Engine.Type == engines.TypeRedis {
			r := &cfg.Engine.Redis
			e, err := m.redis("engine.redis", &r.PrefixedRedis, r.RedisBroker, r.RedisPresence)
			if err != nil {
				return nil, nil, err
			}
			b, p = e.Broker(), e.Presence()
		} else {
			b, p = memory.New(m.memory()), memory.NewPresence(m.memory())
		}
	}
	if cfg.Broker.Enabled {
		if b, err = m.broker("broker", &cfg.Broker); err != nil {
			return nil, nil, err
		}
	}
	if cfg.PresenceManager.Enabled {
		if p, err = m.presence("presence_manager", &cfg.PresenceManager); err != nil {
			return nil, nil, err
		}
	}
	return b, p, nil
}

func (m *maker) note(key, engine string) {
	m.set.sections = append(m.set.sections, section{key, engine})
}

func (m *maker) memory() memory.Config {
	return memory.Config{HistoryMetaTTL: m.cfg.Channel.HistoryMetaTTL}
}

func (m *maker) broker(key string, c *engines.Broker) (broker.Broker, error) {
	m.note(key, c.Type)
	switch c.Type {
	case engines.TypeRedis:
		e, err := m.redis(key+".redis", &c.Redis.PrefixedRedis, c.Redis.RedisBroker, engines.RedisPresence{})
		if err != nil {
			return nil, err
		}
		return e.Broker(), nil
	case engines.TypeNATS:
		return m.nats(key+".nats", &c.NATS)
	case engines.TypePostgres:
		return m.postgres(key+".postgres", &c.Postgres)
	default:
		return memory.New(m.memory()), nil
	}
}

func (m *maker) presence(key string, c *engines.PresenceManager) (broker.PresenceManager, error) {
	m.note(key, c.Type)
	if c.Type != engines.TypeRedis {
		return memory.NewPresence(m.memory()), nil
	}
	e, err := m.redis(key+".redis", &c.Redis.PrefixedRedis, engines.RedisBroker{}, c.Redis.RedisPresence)
	if err != nil {
		return nil, err
	}
	return e.Presence(), nil
}
