package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
)

// maxNamedEngines bounds brokers, map_brokers and presence_managers: each has connections and goroutines.
const maxNamedEngines = 64

// UsesEngine tells whether the section engine provides a broker or a presence manager; if not, it is ignored.
func (c *Config) UsesEngine() bool { return !c.Broker.Enabled || !c.PresenceManager.Enabled }

func (c *Config) checkEngines(p *problem.List) {
	if c.UsesEngine() {
		c.Engine.Check(p, "engine")
	}
	c.Controller.Check(p, "controller")
	c.MapBroker.Check(p, "map_broker")
	c.Broker.Check(p, "broker")
	c.PresenceManager.Check(p, "presence_manager")
	seen := map[string]bool{}
	for i := range c.Brokers {
		b := &c.Brokers[i]
		key := Element("brokers", i, b.Name)
		checkUnreservedName(p, key, b.Name, seen)
		b.Check(p, key)
	}
	clear(seen)
	for i := range c.PresenceManagers {
		m := &c.PresenceManagers[i]
		key := Element("presence_managers", i, m.Name)
		checkUnreservedName(p, key, m.Name, seen)
		m.Check(p, key)
	}
	clear(seen)
	for i := range c.MapBrokers {
		m := &c.MapBrokers[i]
		key := Element("map_brokers", i, m.Name)
		checkUnreservedName(p, key, m.Name, seen)
		m.Check(p, key)
	}
	for key, n := range map[string]int{"brokers": len(c.Brokers), "map_brokers": len(c.MapBrokers), "presence_managers": len(c.PresenceManagers)} {
		if n > maxNamedEngines {
			p.Add(key, "%d elements are more than %d", n, maxNamedEngines)
		}
	}
	c.eachOptions(func(key string, o *ChannelOptions) { c.checkOptionEngines(p, key, o) })
}

// checkOptionEngines tests that the named engines exist, and support the options.
func (c *Config) checkOptionEngines(p *problem.List, key string, o *ChannelOptions) {
	b := c.BrokerOf(o)
	if b == nil {
		p.Add(key+".broker_name", "there is no enabled element %s of brokers", problem.Quote(o.BrokerName))
	}
	if o.PresenceManagerName != "" && !slices.ContainsFunc(c.PresenceManagers, func(m engines.NamedPresenceManager) bool {
		return m.Name == o.PresenceManagerName && m.Enabled
	}) {
		p.Add(key+".presence_manager_name", "there is no enabled element %s of presence_managers", problem.Quote(o.PresenceManagerName))
	}
	switch {
	case b == nil:
	case b.Type == engines.TypePostgres && !o.IsMap():
		c.checkOnPostgres(p, key, &b.Postgres, o)
	case b.Type == engines.TypeNATS:
		checkOnNATS(p, key, o)
	}
	switch m := c.MapBrokerOf(o); {
	case m == nil:
		p.Add(key+".map.broker_name", "there is no enabled element %s of map_brokers", problem.Quote(o.Map.BrokerName))
	case o.IsMap() && m.Type == engines.TypePostgres:
		c.checkOnPostgres(p, key, &m.Postgres.Postgres, o)
	}
}

func checkOnNATS(p *problem.List, key string, o *ChannelOptions) {
	for _, option := range []struct {
		key string
		on  bool
	}{
		{"history_size", o.HistorySize > 0}, {"force_positioning", o.ForcePositioning}, {"allow_positioning", o.AllowPositioning},
		{"force_recovery", o.ForceRecovery}, {"allow_recovery", o.AllowRecovery},
	} {
		if option.on {
			p.Add(key+"."+option.key, "needs history, which the broker of these channels, NATS, does not have")
		}
	}
}

// BrokerOf returns the broker of channels with these options; one that is not Enabled stands for the engine, and has its
// type. nil: they name a broker that does not exist or is not enabled.
func (c *Config) BrokerOf(o *ChannelOptions) *engines.Broker {
	if o.BrokerName == "" {
		if c.Broker.Enabled {
			return &c.Broker
		}
		return &engines.Broker{Type: c.Engine.Type}
	}
	for i := range c.Brokers {
		if b := &c.Brokers[i]; b.Name == o.BrokerName && b.Enabled {
			return &b.Broker
		}
	}
	return nil
}

// MapBrokerOf is BrokerOf for maps.
func (c *Config) MapBrokerOf(o *ChannelOptions) *engines.MapBroker {
	if o.Map.BrokerName == "" {
		return &c.MapBroker
	}
	for i := range c.MapBrokers {
		if m := &c.MapBrokers[i]; m.Name == o.Map.BrokerName && m.Enabled {
			return &m.MapBroker
		}
	}
	return nil
}

// day is the length of a partition.
const day = 24 * time.Hour

// checkOnPostgres tests that the broker keeps enough for the options.
func (c *Config) checkOnPostgres(p *problem.List, key string, b *engines.Postgres, o *ChannelOptions) {
	ttl, name := o.HistoryTTL, ".history_ttl"
	if o.IsMap() {
		ttl, name = o.Map.StreamTTL, ".map.stream_ttl"
	}
	if days := b.RetentionDays(); days > 0 && ttl > time.Duration(days)*day {
		p.Add(key+name, "%s is longer than the broker of these channels keeps publications: partition_retention_days is %d", ttl, days)
	}
	if format := cmp.Or(o.PublicationDataFormat, c.Channel.PublicationDataFormat); format == "binary" && !b.BinaryData {
		p.Add(key+".publication_data_format", "binary needs binary_data of the PostgreSQL broker of these channels")
	}
}
