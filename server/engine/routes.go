package engine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/namespace"
)

// routes finds the engines of channels by their namespaces. A namespace keeps its
// engines for as long as the process lives: subscriptions are on them.
type routes struct {
	channels *namespace.Resolver
	table    atomic.Pointer[table]

	mu                sync.Mutex // of reloads
	brokers, managers map[string]int
	naming            naming
}

// table has the places of each namespace's engines.
type table map[string]place

type place struct{ broker, presence int }

// naming are the rules by which the namespace of a channel is found.
type naming struct{ privatePrefix, boundary string }

func newRoutes(cfg *config.Config, channels *namespace.Resolver, brokers, managers map[string]int) *routes {
	r := &routes{channels: channels, brokers: brokers, managers: managers, naming: namingOf(cfg)}
	t := make(table)
	r.each(cfg, func(_, name string, p place) { t[name] = p })
	r.table.Store(&t)
	return r
}

func namingOf(cfg *config.Config) naming {
	return naming{cfg.Channel.PrivatePrefix, cfg.Channel.NamespaceBoundary}
}

// each visits the namespaces of a validated configuration. A name that has no engine
// is one of an element that was added since the start.
func (r *routes) each(cfg *config.Config, visit func(key, name string, p place)) {
	at := func(o *config.ChannelOptions) place {
		return place{find(r.brokers, o.BrokerName), find(r.managers, o.PresenceManagerName)}
	}
	visit("channel.without_namespace", "", at(&cfg.Channel.WithoutNamespace))
	for i := range cfg.Channel.Namespaces {
		n := &cfg.Channel.Namespaces[i]
		visit(element("channel.namespaces", i, n.Name), n.Name, at(&n.ChannelOptions))
	}
}

// unknown is the place of an engine that is not there.
const unknown = -1

func find(index map[string]int, name string) int {
	if name == "" {
		return 0
	}
	if i, ok := index[name]; ok {
		return i
	}
	return unknown
}

func (r *routes) of(ch string) place {
	c, ok := r.channels.Resolve(ch)
	if !ok {
		return place{}
	}
	return (*r.table.Load())[c.Options.Name]
}

// broker is the compose.Route of brokers, presence that of presence managers.
func (r *routes) broker(ch string) int   { return r.of(ch).broker }
func (r *routes) presence(ch string) int { return r.of(ch).presence }

// reload takes over new namespaces, before the resolver knows them. It refuses what
// would move channels to other engines. undo takes it back.
func (r *routes) reload(cfg *config.Config) (undo func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.table.Load()
	undo = func() { r.table.Store(old) }
	if len(r.brokers)+len(r.managers) == 0 {
		// One engine has them all, now and later: only names can be wrong.
		err = r.checkNames(cfg)
		return undo, err
	}
	if namingOf(cfg) != r.naming {
		return undo, fmt.Errorf("channel.private_prefix, channel.namespace_boundary: they cannot change while the server runs with several engines")
	}
	if err := r.checkNames(cfg); err != nil {
		return undo, err
	}
	next := maps.Clone(*old)
	r.each(cfg, func(key, name string, p place) {
		if was, ok := next[name]; ok && was != p && err == nil {
			err = fmt.Errorf("%s: broker_name and presence_manager_name cannot change while the server runs", key)
		}
		next[name] = p
	})
	if err == nil {
		r.table.Store(&next)
	}
	return undo, err
}

// checkNames: elements of brokers and presence_managers are made at start alone.
func (r *routes) checkNames(cfg *config.Config) (err error) {
	r.each(cfg, func(key, _ string, p place) {
		if (p.broker == unknown || p.presence == unknown) && err == nil {
			err = fmt.Errorf("%s: broker_name or presence_manager_name is not one of those that the server was started with", key)
		}
	})
	return err
}

// Reload takes over the namespaces of a new configuration; engines themselves do
// not change before a restart. It is to be called before the resolver of the
// namespaces is reloaded, and undo if that fails. After an error nothing changed.
func (s *Set) Reload(cfg *config.Config) (undo func(), err error) { return s.routes.reload(cfg) }
