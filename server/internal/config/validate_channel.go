package config

import (
	"cmp"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
)

// Subscription types of channels.
const (
	TypeStream     = "stream"
	TypeMap        = "map"
	TypeMapClients = "map_clients"
	TypeMapUsers   = "map_users"
	TypeSharedPoll = "shared_poll"
)

func (c *Config) checkChannel(p *problem.List) {
	seen := map[string]bool{}
	for i, n := range c.Channel.Namespaces {
		checkName(p, Element("channel.namespaces", i, n.Name), n.Name, namePattern, seen)
	}
	c.eachOptions(func(key string, o *ChannelOptions) {
		c.checkHistory(p, key, o)
		checkRegex(p, key+".channel_regex", o.ChannelRegex)
		checkBatch(p, key, o)
		c.checkOptionProxies(p, key, o)
		checkMap(p, key, o)
		c.checkMapPresence(p, key+".map_clients_presence_channel_prefix", o.MapClientsPresence, TypeMapClients)
		c.checkMapPresence(p, key+".map_users_presence_channel_prefix", o.MapUsersPresence, TypeMapUsers)
		c.checkFullState(p, key+".map.full_state_", o)
		c.checkSharedPoll(p, key, o)
	})
}

func (c *Config) checkHistory(p *problem.List, key string, o *ChannelOptions) {
	if (o.HistorySize != 0) != (o.HistoryTTL != 0) {
		p.Add(key+".history_ttl", "history_size (%d) and history_ttl (%s) must be set together", o.HistorySize, o.HistoryTTL)
	}
	if meta := c.Channel.MetaTTL(o); meta < o.HistoryTTL {
		p.Add(key+".history_ttl", "%s is more than the effective history_meta_ttl, %s", o.HistoryTTL, meta)
	}
	if o.ForceRecovery && (o.HistorySize == 0 || o.HistoryTTL == 0) {
		p.Add(key+".force_recovery", "needs history_size and history_ttl")
	}
	if o.CacheEmptyProxyEnabled && (o.HistorySize == 0 || o.HistoryTTL == 0) {
		p.Add(key+".cache_empty_proxy_enabled", "needs history_size and history_ttl")
	}
	if o.AutoCacheRecover && (!o.ForceRecovery || o.ForceRecoveryMode != "cache") {
		p.Add(key+".auto_cache_recover", "needs force_recovery and force_recovery_mode cache")
	}
}

func checkBatch(p *problem.List, key string, o *ChannelOptions) {
	switch key += ".batch_flush_latest"; {
	case !o.BatchFlushLatest:
	case o.BatchMaxDelay == 0 && o.BatchMaxSize == 0:
		p.Add(key, "needs batch_max_delay or batch_max_size")
	case o.ForcePositioning || o.ForceRecovery || o.Map.Mode != "" && o.Map.Mode != "ephemeral":
		p.Add(key, "has no effect with force_positioning, force_recovery and any map.mode but ephemeral: their subscriptions get every publication")
	}
}

// MetaTTL is the history_meta_ttl of the options, else the global one.
func (c *Channel) MetaTTL(o *ChannelOptions) time.Duration {
	if o.HistoryMetaTTL > 0 {
		return o.HistoryMetaTTL
	}
	return c.HistoryMetaTTL
}

func (c *Config) checkOptionProxies(p *problem.List, key string, o *ChannelOptions) {
	for _, use := range c.channelProxies(o) {
		c.checkProxyUse(p, key, &use)
	}
	if !o.SubscribeStreamProxyEnabled {
		return
	}
	if o.SubscribeProxyEnabled || o.PublishProxyEnabled || o.SubRefreshProxyEnabled {
		p.Add(key+".subscribe_stream_proxy_enabled", "excludes the subscribe, publish and sub refresh proxies")
	}
	stream := ProxyUse{Name: o.SubscribeStreamProxyName, Default: &c.Channel.Proxy.SubscribeStream}
	if x, _ := stream.Proxy(c); x != nil && strings.HasPrefix(x.Endpoint, "http") {
		p.Add(key+".subscribe_stream_proxy_name", "proxy %s has an HTTP endpoint, and streams need gRPC", problem.Quote(o.SubscribeStreamProxyName))
	}
}

// IsMap tells whether the channels are maps.
func (o *ChannelOptions) IsMap() bool {
	switch o.SubscriptionType {
	case TypeMap, TypeMapClients, TypeMapUsers:
		return true
	}
	return false
}

func checkMap(p *problem.List, key string, o *ChannelOptions) {
	m := &o.Map
	if m.RemoveOnUnsubscribe && !o.IsMap() {
		p.Add(key+".map.remove_client_on_unsubscribe", "needs a map subscription_type")
	}
	if m.ClientKey != "" && (m.PublishProxyEnabled || m.RemoveProxyEnabled) {
		p.Add(key+".map.client_key", "%s excludes the publish and remove proxies", problem.Quote(m.ClientKey))
	}
	checkOrder(p, key+".map.min_page_size", m.MinPageSize, "default_page_size", m.DefaultPageSize)
	checkOrder(p, key+".map.default_page_size", m.DefaultPageSize, "max_page_size", m.MaxPageSize)
	checkOrder(p, key+".map.min_page_size", m.MinPageSize, "max_page_size", m.MaxPageSize)
	if o.IsMap() {
		checkMapMode(p, key+".map", o)
	}
}

func checkOrder(p *problem.List, key string, low int, name string, high int) {
	if low > 0 && high > 0 && low > high {
		p.Add(key, "%d is more than %s, %d", low, name, high)
	}
}

func checkMapMode(p *problem.List, key string, o *ChannelOptions) {
	m := &o.Map
	switch m.Mode {
	case "":
		p.Add(key+".mode", "is required by subscription_type %s", o.SubscriptionType)
		return
	case "persistent":
		if o.SubscriptionType != TypeMap {
			p.Add(key+".mode", "persistent is not possible with subscription_type %s", o.SubscriptionType)
		}
		if m.KeyTTL != 0 {
			p.Add(key+".key_ttl", "%s: keys of persistent maps do not expire", m.KeyTTL)
		}
	default:
		if m.KeyTTL <= 0 {
			p.Add(key+".key_ttl", "%s must be positive in mode %s", m.KeyTTL, m.Mode)
		}
	}
	if m.Mode == "ephemeral" {
		if m.StreamSize != 0 || m.StreamTTL != 0 || m.MetaTTL != 0 {
			p.Add(key+".stream_size", "stream_size, stream_ttl and meta_ttl must not be set in mode ephemeral")
		}
		return
	}
	if m.StreamSize < 0 || m.StreamTTL < 0 || m.MetaTTL < 0 {
		p.Add(key+".stream_size", "stream_size, stream_ttl and meta_ttl must not be negative")
	}
	stream := m.StreamTTL
	if stream == 0 {
		stream = time.Minute
	}
	if m.MetaTTL > 0 && m.MetaTTL < stream {
		p.Add(key+".meta_ttl", "%s is less than the stream's TTL, %s", m.MetaTTL, stream)
	}
}

// checkMapPresence tests that a prefix is in a namespace of the right type.
func (c *Config) checkMapPresence(p *problem.List, key, prefix, want string) {
	if prefix == "" {
		return
	}
	if o := c.options(c.Channel.namespaceOf(prefix)); o == nil || o.SubscriptionType != want {
		p.Add(key, "%s must start with a namespace of subscription_type %s", problem.Quote(prefix), want)
	}
}

// namespaceOf returns the namespace of channels with a prefix; empty for none.
func (c *Channel) namespaceOf(prefix string) string {
	if name, _, ok := strings.Cut(prefix, c.NamespaceBoundary); ok {
		return name
	}
	return ""
}

// FullStates returns the prefixes of full-state channels by namespace.
func (c *Channel) FullStates() map[string][]string {
	all := make(map[string][]string)
	add := func(o *ChannelOptions) {
		if prefix := o.Map.FullStatePrefix; prefix != "" {
			name := c.namespaceOf(prefix)
			all[name] = append(all[name], prefix)
		}
	}
	add(&c.WithoutNamespace)
	for i := range c.Namespaces {
		add(&c.Namespaces[i].ChannelOptions)
	}
	return all
}

func (c *Config) checkFullState(p *problem.List, key string, o *ChannelOptions) {
	m := &o.Map
	if m.FullStateInterval != 0 && m.FullStateInterval < 10*time.Millisecond {
		p.Add(key+"tick_interval", "%s is less than 10ms", m.FullStateInterval)
	}
	if m.FullStatePrefix == "" {
		if m.FullStateInterval != 0 {
			p.Add(key+"tick_interval", "needs full_state_channel_prefix")
		}
		return
	}
	key += "channel_prefix"
	if o.SubscriptionType != TypeMap {
		p.Add(key, "needs subscription_type map")
	}
	if cmp.Or(o.PublicationDataFormat, c.Channel.PublicationDataFormat) == "binary" {
		p.Add(key, "needs values that are JSON, and publication_data_format is binary")
	}
	name := c.Channel.namespaceOf(m.FullStatePrefix)
	shows := c.options(name)
	if name == "" || shows == nil || shows.SubscriptionType != "" && shows.SubscriptionType != TypeStream {
		p.Add(key, "%s must start with a namespace of subscription_type stream", problem.Quote(m.FullStatePrefix))
		return
	}
	for _, option := range []struct {
		key string
		on  bool
	}{
		{"history_size", shows.HistorySize > 0}, {"join_leave", shows.JoinLeave}, {"broker_name", shows.BrokerName != ""},
		{"subscribe_stream_proxy_enabled", shows.SubscribeStreamProxyEnabled},
	} {
		if option.on {
			p.Add(key, "namespace %s must not have %s: it shows maps and nothing else", problem.Quote(name), option.key)
		}
	}
}

func (c *Config) checkSharedPoll(p *problem.List, key string, o *ChannelOptions) {
	if o.SharedPoll.PublishEnabled && o.SharedPoll.Mode != "versioned" {
		p.Add(key+".shared_poll.publish_enabled", "needs mode versioned")
	}
	if m := o.SharedPoll.BackpressureMaxInterval; m > 0 && m < cmp.Or(o.SharedPoll.RefreshInterval, 10*time.Second) {
		p.Add(key+".shared_poll.backpressure_max_interval", "%s is less than shared_poll.refresh_interval", m)
	}
	if o.SubscriptionType == TypeSharedPoll && c.SharedPoll.HMACSecretKey == "" {
		p.Add(key+".subscription_type", "shared_poll needs shared_poll.hmac_secret_key")
	}
}

func (c *Config) checkNotification(p *problem.List) {
	n := &c.SharedPoll.Notification
	const key = "shared_poll.notification"
	if !n.Enabled {
		return
	}
	switch n.Type {
	case engines.TypeRedis:
		n.Redis.Check(p, key+".redis")
		name, list := "address", n.Redis.Address
		if len(n.Redis.ClusterAddress) > 0 {
			name, list = "cluster_address", n.Redis.ClusterAddress
		} else if len(n.Redis.SentinelAddress) > 0 {
			name, list = "sentinel_address", n.Redis.SentinelAddress
		}
		if len(list) != 1 {
			p.Add(key+".redis."+name, "there must be one item, not %d", len(list))
		}
	case engines.TypeNATS:
		if n.NATS.URL == "" {
			p.Add(key+".nats.url", "is required")
		}
		if !isSubject(n.Channel) {
			p.Add(key+".channel", "%s is not a subject of NATS without wildcards", problem.Quote(n.Channel))
		}
	default:
		p.Add(key+".type", "%s is not one of redis, nats", problem.Quote(n.Type))
	}
	if len(n.Channel) > maxNotifyChannel {
		p.Add(key+".channel", "%d bytes are more than %d", len(n.Channel), maxNotifyChannel)
	}
}

// defaultNotifyDelay is the delay if only the number of keys is configured.
const defaultNotifyDelay = 100 * time.Millisecond

// Gathering returns how notified keys gather in channels with these options.
func (n *PollNotification) Gathering(o *SharedPollOptions) NotifyBatch {
	own, all := &o.Notification, &n.NotifyBatch
	b := NotifyBatch{BatchMaxSize: cmp.Or(own.BatchMaxSize, all.BatchMaxSize), BatchMaxDelay: cmp.Or(own.BatchMaxDelay, all.BatchMaxDelay)}
	if b.BatchMaxDelay == 0 && b.BatchMaxSize > 1 {
		b.BatchMaxDelay = defaultNotifyDelay
	}
	return b
}

// maxNotifyChannel bounds the name of the PUB/SUB channel, in bytes.
const maxNotifyChannel = 255

// isSubject tells whether a name is a NATS subject without wildcards.
func isSubject(name string) bool {
	for token := range strings.SplitSeq(name, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
			return false
		}
	}
	return true
}
