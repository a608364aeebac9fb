package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Set has the enabled proxies of a configuration. It never changes.
type Set struct {
	proxies map[question]*Proxy
	keeper  *Keeper
}

// question is a proxy that is asked about an event. Namespaces with the same proxy and event share connections and metrics.
type question struct {
	event Event
	name  string
}

// Default is the name of a proxy that is not one of the section proxies.
const Default = config.DefaultProxy

// NewSet makes the proxies of a validated configuration. It reuses proxies of before, which may be nil, if their
// configuration is the same. An error names the key.
func NewSet(cfg *config.Config, before *Set, meter func(protocol string, e Event, name string) Meter, tracer Tracer, log *slog.Logger) (*Set, error) {
	s := &Set{proxies: make(map[question]*Proxy)}
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

// Of returns the proxy for an event, nil if no namespace uses it. An empty name means Default. s may be nil.
func (s *Set) Of(e Event, name string) *Proxy {
	if s == nil {
		return nil
	}
	if name == "" {
		name = Default
	}
	return s.proxies[question{e, name}]
}

// Keep is Keeper.Keep.
func (s *Set) Keep(overGRPC bool, header func() http.Header, emulated map[string]string) (*From, LeftOut) {
	if s == nil {
		return nil, LeftOut{}
	}
	return s.keeper.Keep(overGRPC, header, emulated)
}

// Retire closes the proxies that next does not have, after their calls and streams.
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

// Close closes all proxies. Backends may read the last data of streams before that, for a second.
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

type configured struct {
	key    string
	config *config.Proxy
}

func inUse(cfg *config.Config) map[question]configured {
	out := make(map[question]configured)
	for _, u := range cfg.ProxyUses() {
		if !u.Enabled {
			continue
		}
		name := cmp.Or(u.Name, Default)
		if p, key := u.Proxy(cfg); p != nil {
			out[question{eventByName(u.Event), name}] = configured{key, p}
		}
	}
	return out
}
