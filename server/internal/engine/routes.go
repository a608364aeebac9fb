package engine

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Routes tell which engines the channels of a configuration are on. They are immutable and
// safe for concurrent use.
type Routes struct {
	channels *channels.Resolver
	naming   naming
	// places has the namespaces of this configuration and of all before it: a namespace that a
	// reload removes may still have subscriptions on its engines.
	places map[string]place
	// streamedMaps are the namespaces of this configuration with maps that have a stream.
	streamedMaps map[string]bool
}

// place has the indexes of the engines of a namespace.
type place struct{ broker, presence int }

// naming has the rules that find the namespace of a channel.
type naming struct{ privatePrefix, boundary string }

// Routes returns the routes of a validated configuration, which names the same engines as the
// one that the set was made from. channels resolves the names of channels. before are the routes
// that are in force, nil at start. A change that would move channels from one engine to another
// is an error, which names the key.
func (s *Set) Routes(cfg *config.Config, resolver *channels.Resolver, before *Routes) (*Routes, error) {
	r := &Routes{
		channels: resolver,
		naming:   naming{cfg.Channel.PrivatePrefix, cfg.Channel.NamespaceBoundary},
		places:   make(map[string]place),

		streamedMaps: make(map[string]bool),
	}
	if before != nil {
		if several := len(s.brokerIndex)+len(s.managerIndex) > 2; several && before.naming != r.naming {
			return nil, errors.New("channel.private_prefix, channel.namespace_boundary: they cannot change while the server runs with several engines")
		}
		maps.Copy(r.places, before.places)
	}
	var errs []error
	fullStates := cfg.Channel.FullStates()
	add := func(key, name string, o *config.ChannelOptions) {
		at, err := s.brokerOf(key, o, name != "" && fullStates[name] != nil)
		if err != nil {
			errs = append(errs, err)
		}
		p := place{at, s.managerIndex[slot{name: o.PresenceManagerName}]}
		if was, ok := r.places[name]; ok && was != p {
			errs = append(errs, fmt.Errorf("%s: broker_name, map.broker_name, presence_manager_name and whether channels are maps, or show them, cannot change while the server runs", key))
		}
		r.places[name] = p
		r.streamedMaps[name] = o.IsMap() && o.Map.Mode != "ephemeral"
	}
	add("channel.without_namespace", "", &cfg.Channel.WithoutNamespace)
	for i := range cfg.Channel.Namespaces {
		n := &cfg.Channel.Namespaces[i]
		add(config.Element("channel.namespaces", i, n.Name), n.Name, &n.ChannelOptions)
	}
	return r, errors.Join(errs...)
}

// of returns the place of a channel. If its namespace is unknown, these are the default engines.
func (r *Routes) of(ch string) place { return r.places[r.channels.Namespace(ch)] }

// hasStreamedMap tells whether a channel is a map that has a stream.
func (r *Routes) hasStreamedMap(ch string) bool { return r.streamedMaps[r.channels.Namespace(ch)] }
