package engine

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Assignment tells which engines the channels of a configuration are on. It is immutable.
type Assignment struct {
	channels *channels.Resolver
	naming   naming
	// namespaces also has namespaces that a reload has removed: they may still have
	// subscriptions.
	namespaces   map[string]indexes
	streamedMaps map[string]bool
}

type indexes struct{ broker, presence int }

type naming struct{ privatePrefix, boundary string }

// Assign returns the assignment of a validated configuration, which names the same engines as the one that the set was
// made from. before is the assignment in force, nil at start. If channels would move from one engine to another, the
// error names the key.
func (s *Set) Assign(cfg *config.Config, resolver *channels.Resolver, before *Assignment) (*Assignment, error) {
	r := &Assignment{
		channels:   resolver,
		naming:     naming{cfg.Channel.PrivatePrefix, cfg.Channel.NamespaceBoundary},
		namespaces: make(map[string]indexes),

		streamedMaps: make(map[string]bool),
	}
	if before != nil {
		if several := len(s.brokerIndex)+len(s.managerIndex) > 2; several && before.naming != r.naming {
			return nil, errors.New("channel.private_prefix, channel.namespace_boundary: they cannot change while the server runs with several engines")
		}
		maps.Copy(r.namespaces, before.namespaces)
	}
	var errs []error
	fullStates := cfg.Channel.FullStates()
	add := func(key, name string, o *config.ChannelOptions) {
		at, err := s.brokerOf(key, o, name != "" && fullStates[name] != nil)
		if err != nil {
			errs = append(errs, err)
		}
		p := indexes{at, s.managerIndex[slot{name: o.PresenceManagerName}]}
		if was, ok := r.namespaces[name]; ok && was != p {
			errs = append(errs, fmt.Errorf("%s: broker_name, map.broker_name, presence_manager_name and whether channels are maps, or show them, cannot change while the server runs", key))
		}
		r.namespaces[name] = p
		r.streamedMaps[name] = o.IsMap() && o.Map.Mode != "ephemeral"
	}
	add("channel.without_namespace", "", &cfg.Channel.WithoutNamespace)
	for i := range cfg.Channel.Namespaces {
		n := &cfg.Channel.Namespaces[i]
		add(config.Element("channel.namespaces", i, n.Name), n.Name, &n.ChannelOptions)
	}
	return r, errors.Join(errs...)
}

// of returns the engines of a channel, the default ones if its namespace is unknown.
func (r *Assignment) of(ch string) indexes { return r.namespaces[r.channels.Namespace(ch)] }

func (r *Assignment) hasStreamedMap(ch string) bool { return r.streamedMaps[r.channels.Namespace(ch)] }
