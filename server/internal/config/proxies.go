package config

// DefaultProxy is the name of a proxy that is not in proxies.
const DefaultProxy = "default"

// ProxyUse is a proxy that options ask about an event.
type ProxyUse struct {
	// Event is the name in metrics.
	Event   string
	Enabled bool
	// Name is an element of proxies; if it is empty or DefaultProxy, Default is asked.
	Name string
	// NameKey is the key of Name below the options; empty if there is none.
	NameKey string
	// Default has the key DefaultKey.
	DefaultKey string
	Default    *Proxy
}

// Proxy returns the proxy that is asked, and its key; nil if there is none.
func (u *ProxyUse) Proxy(c *Config) (p *Proxy, key string) {
	if u.Name == "" || u.Name == DefaultProxy {
		return u.Default, u.DefaultKey
	}
	for i := range c.Proxies {
		if c.Proxies[i].Name == u.Name {
			return &c.Proxies[i].Proxy, Element("proxies", i, u.Name)
		}
	}
	return nil, ""
}

// ProxyUses returns all possible proxies, for each set of options.
func (c *Config) ProxyUses() []ProxyUse {
	uses := c.clientProxies()
	c.eachOptions(func(_ string, o *ChannelOptions) { uses = append(uses, c.channelProxies(o)...) })
	uses = append(uses, c.rpcProxy(&c.RPC.WithoutNamespace))
	for i := range c.RPC.Namespaces {
		uses = append(uses, c.rpcProxy(&c.RPC.Namespaces[i].RPCOptions))
	}
	return uses
}

func (c *Config) clientProxies() []ProxyUse {
	of := &c.Client.Proxy
	return []ProxyUse{
		{"connect", of.Connect.Enabled, "", "", "client.proxy.connect", &of.Connect.Proxy},
		{"refresh", of.Refresh.Enabled, "", "", "client.proxy.refresh", &of.Refresh.Proxy},
	}
}

func (c *Config) channelProxies(o *ChannelOptions) []ProxyUse {
	of := &c.Channel.Proxy
	return []ProxyUse{
		{"subscribe", o.SubscribeProxyEnabled, o.SubscribeProxyName, "subscribe_proxy_name", "channel.proxy.subscribe", &of.Subscribe},
		{"publish", o.PublishProxyEnabled, o.PublishProxyName, "publish_proxy_name", "channel.proxy.publish", &of.Publish},
		{"sub_refresh", o.SubRefreshProxyEnabled, o.SubRefreshProxyName, "sub_refresh_proxy_name", "channel.proxy.sub_refresh", &of.SubRefresh},
		{"cache_empty", o.CacheEmptyProxyEnabled, o.CacheEmptyProxyName, "cache_empty_proxy_name", "channel.proxy.cache_empty", &of.CacheEmpty},
		{"subscribe_stream", o.SubscribeStreamProxyEnabled, o.SubscribeStreamProxyName, "subscribe_stream_proxy_name", "channel.proxy.subscribe_stream", &of.SubscribeStream},
		{"map_publish", o.Map.PublishProxyEnabled, o.Map.PublishProxyName, "map.publish_proxy_name", "channel.proxy.map_publish", &of.MapPublish},
		{"map_remove", o.Map.RemoveProxyEnabled, o.Map.RemoveProxyName, "map.remove_proxy_name", "channel.proxy.map_remove", &of.MapRemove},
		{"shared_poll_refresh", o.SubscriptionType == TypeSharedPoll, o.SharedPoll.ProxyName, "shared_poll.proxy_name", "channel.proxy.shared_poll_refresh", &of.SharedPollRefresh},
	}
}

func (c *Config) rpcProxy(o *RPCOptions) ProxyUse {
	return ProxyUse{"rpc", o.ProxyEnabled, o.ProxyName, "proxy_name", "rpc.proxy", &c.RPC.Proxy}
}
