package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Set has the proxies of a configuration that are in use. It does not change.
type Set struct {
	proxies map[use]*Proxy
	keeper  *Keeper
}

// use is a proxy that is asked about an event. All namespaces that ask the same proxy about the
// same event share its connections and its metrics.
type use struct {
	event Event
	name  string
}

// Default is the name of a proxy that is not one of the section proxies.
const Default = "default"

// NewSet makes the proxies that a validated configuration uses. It takes over those of before
// whose configuration is the same; before may be nil. An error names the key.
func NewSet(cfg *config.Config, before *Set, meter func(protocol string, e Event, name string) Meter, tracer Tracer, log *slog.Logger) (*Set, error) {
	s := &Set{proxies: make(map[use]*Proxy)}
	var made []*Proxy
	for u, at := range inUse(cfg) {
		if p := before.Of(u.event, u.name); p != nil && reflect.DeepEqual(p.config, at.config) {
			s.proxies[u] = p
			continue
		}
		p, err := New(Options{Event: u.event, Name: u.name, Key: at.key, Config: at.config, Meter: meter, Tracer: tracer, Log: log})
		if err != nil {
			for _, p := range made {
				p.Close()
			}
			return nil, fmt.Errorf("%s.%w", at.key, err)
		}
		made = append(made, p)
		s.proxies[u] = p
	}
	var all []*Proxy
	for _, p := range s.proxies {
		all = append(all, p)
	}
	s.keeper = NewKeeper(cfg.Client.ForwardedHeadersMax, all...)
	return s, nil
}

// Of returns the proxy that is asked about an event, nil if no namespace uses it. An empty name
// means Default. s may be nil.
func (s *Set) Of(e Event, name string) *Proxy {
	if s == nil {
		return nil
	}
	if name == "" {
		name = Default
	}
	return s.proxies[use{e, name}]
}

// Keep is Keeper.Keep for all proxies of the set.
func (s *Set) Keep(overGRPC bool, header func() http.Header, emulated map[string]string) (*From, LeftOut) {
	if s == nil {
		return nil, LeftOut{}
	}
	return s.keeper.Keep(overGRPC, header, emulated)
}

// Retire closes the proxies of s that next does not have, once the calls that may be under way
// and all streams have ended.
func (s *Set) Retire(next *Set) {
	if s == nil {
		return
	}
	for u, p := range s.proxies {
		if next.Of(u.event, u.name) != p {
			time.AfterFunc(2*p.config.Timeout, p.retire)
		}
	}
}

// Close closes all proxies. For streams it waits as long as backends may read what clients have sent.
func (s *Set) Close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, p := range s.proxies {
		select {
		case <-p.streams.none():
		case <-ctx.Done():
		}
		p.Close()
	}
}

// place is a proxy in the configuration.
type place struct {
	key    string
	config *config.Proxy
}

// inUse returns the proxies that the configuration switches on.
func inUse(cfg *config.Config) map[use]place {
	out := make(map[use]place)
	add := func(enabled bool, e Event, name, key string, byDefault *config.Proxy) {
		if !enabled {
			return
		}
		if name == "" || name == Default {
			out[use{e, Default}] = place{key, byDefault}
			return
		}
		for i := range cfg.Proxies {
			if p := &cfg.Proxies[i]; p.Name == name {
				out[use{e, name}] = place{fmt.Sprintf("proxies[%d](%s)", i, name), &p.Proxy}
			}
		}
	}
	client := &cfg.Client.Proxy
	add(client.Connect.Enabled, Connect, "", "client.proxy.connect", &client.Connect.Proxy)
	add(client.Refresh.Enabled, Refresh, "", "client.proxy.refresh", &client.Refresh.Proxy)
	channels := func(o *config.ChannelOptions) {
		d := &cfg.Channel.Proxy
		add(o.SubscribeProxyEnabled, Subscribe, o.SubscribeProxyName, "channel.proxy.subscribe", &d.Subscribe)
		add(o.PublishProxyEnabled, Publish, o.PublishProxyName, "channel.proxy.publish", &d.Publish)
		add(o.SubRefreshProxyEnabled, SubRefresh, o.SubRefreshProxyName, "channel.proxy.sub_refresh", &d.SubRefresh)
		add(o.Map.PublishProxyEnabled, MapPublish, o.Map.PublishProxyName, "channel.proxy.map_publish", &d.MapPublish)
		add(o.Map.RemoveProxyEnabled, MapRemove, o.Map.RemoveProxyName, "channel.proxy.map_remove", &d.MapRemove)
		add(o.SubscriptionType == config.TypeSharedPoll, SharedPollRefresh, o.SharedPoll.ProxyName, "channel.proxy.shared_poll_refresh", &d.SharedPollRefresh)
		add(o.CacheEmptyProxyEnabled, CacheEmpty, o.CacheEmptyProxyName, "channel.proxy.cache_empty", &d.CacheEmpty)
		add(o.SubscribeStreamProxyEnabled, SubscribeStream, o.SubscribeStreamProxyName, "channel.proxy.subscribe_stream", &d.SubscribeStream)
	}
	channels(&cfg.Channel.WithoutNamespace)
	for i := range cfg.Channel.Namespaces {
		channels(&cfg.Channel.Namespaces[i].ChannelOptions)
	}
	calls := func(o *config.RPCOptions) { add(o.ProxyEnabled, RPC, o.ProxyName, "rpc.proxy", &cfg.RPC.Proxy) }
	calls(&cfg.RPC.WithoutNamespace)
	for i := range cfg.RPC.Namespaces {
		calls(&cfg.RPC.Namespaces[i].RPCOptions)
	}
	return out
}
