package config

import (
	"slices"
	"time"
)

// Types of engines, brokers and presence managers.
const (
	TypeMemory   = "memory"
	TypeRedis    = "redis"
	TypeNATS     = "nats"
	TypePostgres = "postgres"
)

// maxNamedEngines bounds brokers and presence_managers. Each element has its own connections
// and goroutines.
const maxNamedEngines = 64

// maxStartTimeout bounds how long a starting server may wait for an engine.
const maxStartTimeout = time.Hour

// UsesEngine tells whether the section engine provides a broker or a presence manager. If not,
// the server ignores it.
func (c *Config) UsesEngine() bool { return !c.Broker.Enabled || !c.PresenceManager.Enabled }

func (c *Config) checkEngines(p *problems) {
	if t := c.Engine.Type; c.UsesEngine() && t != TypeMemory && t != TypeRedis {
		p.add("engine.type", "%s is not one of memory, redis", quote(t))
	}
	c.Controller.check(p)
	c.MapBroker.check(p)
	if c.UsesEngine() && c.Engine.Type == TypeRedis {
		c.Engine.Redis.check(p, "engine.redis")
		checkPresenceTTL(p, "engine.redis", c.Engine.Redis.PresenceTTL)
	}
	c.Broker.check(p, "broker")
	c.PresenceManager.check(p, "presence_manager")
	seen := map[string]bool{}
	for i := range c.Brokers {
		b := &c.Brokers[i]
		key := element("brokers", i, b.Name)
		checkUnreservedName(p, key, b.Name, seen)
		b.check(p, key)
	}
	clear(seen)
	for i := range c.PresenceManagers {
		m := &c.PresenceManagers[i]
		key := element("presence_managers", i, m.Name)
		checkUnreservedName(p, key, m.Name, seen)
		m.check(p, key)
	}
	for key, n := range map[string]int{"brokers": len(c.Brokers), "presence_managers": len(c.PresenceManagers)} {
		if n > maxNamedEngines {
			p.add(key, "%d elements are more than %d", n, maxNamedEngines)
		}
	}
	c.eachOptions(func(key string, o *ChannelOptions) { c.checkOptionEngines(p, key, o) })
}

func (b *Broker) check(p *problems, key string) {
	switch {
	case !b.Enabled:
	case b.Type == TypeRedis:
		b.Redis.check(p, key+".redis")
	case b.Type == TypeNATS:
		b.NATS.check(p, key+".nats")
	case b.Type == TypePostgres:
		b.Postgres.check(p, key+".postgres")
	}
}

func (m *PresenceManager) check(p *problems, key string) {
	if m.Enabled && m.Type == TypeRedis {
		m.Redis.check(p, key+".redis")
		checkPresenceTTL(p, key+".redis", m.Redis.PresenceTTL)
	}
}

func (r *PrefixedRedis) check(p *problems, key string) {
	r.Redis.check(p, key)
	checkStartTimeout(p, key, r.StartTimeout)
	checkClientTLS(p, key+".tls", r.TLS)
	checkClientTLS(p, key+".sentinel_tls", r.SentinelTLS)
}

func (r *Redis) check(p *problems, key string) {
	checkPositive(p, key+".connect_timeout", r.ConnectTimeout)
	checkPositive(p, key+".io_timeout", r.IOTimeout)
	if r.DB < 0 {
		p.add(key+".db", "%d is negative", r.DB)
	}
	if len(r.ClusterAddress) == 0 && len(r.SentinelAddress) > 0 && r.SentinelMasterName == "" {
		p.add(key+".sentinel_master_name", "is required by sentinel_address")
	}
}

// checkPresenceTTL requires a second at least, the unit in which Redis expires entries.
func checkPresenceTTL(p *problems, key string, ttl time.Duration) {
	if ttl < time.Second {
		p.add(key+".presence_ttl", "%s is less than 1s", ttl)
	}
}

func (n *NATS) check(p *problems, key string) {
	checkPositive(p, key+".dial_timeout", n.DialTimeout)
	checkPositive(p, key+".write_timeout", n.WriteTimeout)
	checkStartTimeout(p, key, n.StartTimeout)
	checkClientTLS(p, key+".tls", n.TLS)
}

func checkPositive(p *problems, key string, d time.Duration) {
	if d <= 0 {
		p.add(key, "%s is not positive", d)
	}
}

func checkStartTimeout(p *problems, key string, d time.Duration) {
	if d > maxStartTimeout {
		p.add(key+".start_timeout", "%s is more than %s", d, maxStartTimeout)
	}
}

func checkClientTLS(p *problems, key string, t TLS) {
	if _, err := t.ClientConfig(); err != nil {
		p.add(key, "%w", err)
	}
}

// checkOptionEngines tests the engines that options name, and that the broker supports the
// options.
func (c *Config) checkOptionEngines(p *problems, key string, o *ChannelOptions) {
	b := c.BrokerOf(o)
	if b == nil {
		p.add(key+".broker_name", "there is no enabled element %s of brokers", quote(o.BrokerName))
	}
	if o.PresenceManagerName != "" && !slices.ContainsFunc(c.PresenceManagers, func(m NamedPresenceManager) bool {
		return m.Name == o.PresenceManagerName && m.Enabled
	}) {
		p.add(key+".presence_manager_name", "there is no enabled element %s of presence_managers", quote(o.PresenceManagerName))
	}
	switch {
	case b == nil:
	case b.Type == TypePostgres && !o.IsMap():
		c.checkOnPostgres(p, key, &b.Postgres, o)
	case b.Type == TypeNATS:
		checkOnNATS(p, key, o)
	}
	if o.IsMap() && c.MapBroker.Type == TypePostgres {
		c.checkOnPostgres(p, key, &c.MapBroker.Postgres.Postgres, o)
	}
}

// checkOnNATS tests that channels need nothing that NATS does not have.
func checkOnNATS(p *problems, key string, o *ChannelOptions) {
	for _, option := range []struct {
		key string
		on  bool
	}{
		{"history_size", o.HistorySize > 0}, {"force_positioning", o.ForcePositioning}, {"allow_positioning", o.AllowPositioning},
		{"force_recovery", o.ForceRecovery}, {"allow_recovery", o.AllowRecovery},
	} {
		if option.on {
			p.add(key+"."+option.key, "needs history, which the broker of these channels, NATS, does not have")
		}
	}
}

// BrokerOf returns the section that describes the broker of channels with these options. A
// section that is not Enabled stands for the engine; it has the engine's type. The result is nil
// if the options name a broker that does not exist or is not enabled.
func (c *Config) BrokerOf(o *ChannelOptions) *Broker {
	if o.BrokerName == "" {
		if c.Broker.Enabled {
			return &c.Broker
		}
		return &Broker{Type: c.Engine.Type}
	}
	for i := range c.Brokers {
		if b := &c.Brokers[i]; b.Name == o.BrokerName && b.Enabled {
			return &b.Broker
		}
	}
	return nil
}
