package config

import "fmt"

// unsupported is what this version knows but cannot do yet: each entry names a
// key and tells whether the configuration switches the feature on. A server that
// silently did without it would be worse than one that does not start. The table
// shrinks as features arrive.
var unsupported = []struct {
	key string
	on  func(*Config) bool
}{
	{"broker.type", func(c *Config) bool {
		return c.Broker.Enabled && c.Broker.Type == TypePostgres
	}},
	{"map_broker.type", func(c *Config) bool { return c.MapBroker.Type != "memory" }},
	{"controller.enabled", func(c *Config) bool { return c.Controller.Enabled }},
	{"client.proxy.connect.enabled", func(c *Config) bool { return c.Client.Proxy.Connect.Enabled }},
	{"client.proxy.refresh.enabled", func(c *Config) bool { return c.Client.Proxy.Refresh.Enabled }},
	{"client.token.jwks_public_endpoint", func(c *Config) bool { return c.Client.Token.JWKSPublicEndpoint != "" }},
	{"client.subscription_token.jwks_public_endpoint", func(c *Config) bool {
		return c.Client.SubscriptionToken.Enabled && c.Client.SubscriptionToken.JWKSPublicEndpoint != ""
	}},
	{"rpc.without_namespace.proxy_enabled", func(c *Config) bool { return c.RPC.WithoutNamespace.ProxyEnabled }},
	{"grpc_api.enabled", func(c *Config) bool { return c.GRPCAPI.Enabled }},
	{"sse.enabled", func(c *Config) bool { return c.SSE.Enabled }},
	{"http_stream.enabled", func(c *Config) bool { return c.HTTPStream.Enabled }},
	{"webtransport.enabled", func(c *Config) bool { return c.WebTransport.Enabled }},
	{"uni_websocket.enabled", func(c *Config) bool { return c.UniWebSocket.Enabled }},
	{"uni_sse.enabled", func(c *Config) bool { return c.UniSSE.Enabled }},
	{"uni_http_stream.enabled", func(c *Config) bool { return c.UniHTTPStream.Enabled }},
	{"uni_grpc.enabled", func(c *Config) bool { return c.UniGRPC.Enabled }},
	{"admin.enabled", func(c *Config) bool { return c.Admin.Enabled }},
	{"prometheus.recovered_publications_histogram", func(c *Config) bool {
		return c.Prometheus.Enabled && c.Prometheus.RecoveredPublicationsHistogram
	}},
	{"swagger.enabled", func(c *Config) bool { return c.Swagger.Enabled }},
	{"opentelemetry.enabled", func(c *Config) bool { return c.OpenTelemetry.Enabled }},
	{"graphite.enabled", func(c *Config) bool { return c.Graphite.Enabled }},
	{"http_server.http3.enabled", func(c *Config) bool { return c.HTTPServer.HTTP3.Enabled }},
	{"http_server.tls_autocert.enabled", func(c *Config) bool { return c.HTTPServer.TLSAutocert.Enabled }},
}

// unsupportedOptions is the same for the options of channels.
var unsupportedOptions = []struct {
	key string
	on  func(*ChannelOptions) bool
}{
	{"subscribe_proxy_enabled", func(o *ChannelOptions) bool { return o.SubscribeProxyEnabled }},
	{"publish_proxy_enabled", func(o *ChannelOptions) bool { return o.PublishProxyEnabled }},
	{"sub_refresh_proxy_enabled", func(o *ChannelOptions) bool { return o.SubRefreshProxyEnabled }},
	{"subscribe_stream_proxy_enabled", func(o *ChannelOptions) bool { return o.SubscribeStreamProxyEnabled }},
	{"map.publish_proxy_enabled", func(o *ChannelOptions) bool { return o.Map.PublishProxyEnabled }},
	{"map.remove_proxy_enabled", func(o *ChannelOptions) bool { return o.Map.RemoveProxyEnabled }},
	{"subscription_type", func(o *ChannelOptions) bool {
		return o.SubscriptionType != "" && o.SubscriptionType != "stream"
	}},
	{"map_clients_presence_channel_prefix", func(o *ChannelOptions) bool { return o.MapClientsPresence != "" }},
	{"map_users_presence_channel_prefix", func(o *ChannelOptions) bool { return o.MapUsersPresence != "" }},
}

func (c *Config) checkSupported(p *problems) {
	refuse := func(key string) { p.add(key, "this version of Gyro does not support it yet") }
	for _, u := range unsupported {
		if u.on(c) {
			refuse(u.key)
		}
	}
	c.eachOptions(func(key string, o *ChannelOptions) {
		for _, u := range unsupportedOptions {
			if u.on(o) {
				refuse(key + "." + u.key)
			}
		}
	})
	for i, b := range c.Brokers {
		if b.Enabled && b.Type == TypePostgres {
			refuse(element("brokers", i, b.Name) + ".type")
		}
	}
	for i, n := range c.RPC.Namespaces {
		if n.ProxyEnabled {
			refuse(element("rpc.namespaces", i, n.Name) + ".proxy_enabled")
		}
	}
	for i, n := range c.Consumers {
		if n.Enabled {
			refuse(element("consumers", i, n.Name) + ".enabled")
		}
	}
}

// eachOptions visits the channel options with their keys.
func (c *Config) eachOptions(visit func(key string, o *ChannelOptions)) {
	visit("channel.without_namespace", &c.Channel.WithoutNamespace)
	for i := range c.Channel.Namespaces {
		n := &c.Channel.Namespaces[i]
		visit(element("channel.namespaces", i, n.Name), &n.ChannelOptions)
	}
}

// element is how messages name an element of a list.
func element(list string, i int, name string) string {
	return fmt.Sprintf("%s[%d](%s)", list, i, shorten(name))
}
