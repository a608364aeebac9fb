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
const Default = config.DefaultProxy

// NewSet makes the proxies that a validated configuration uses. It takes over proxies of before with the same
// configuration; before may be nil. An error names the key.
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

// Close closes all proxies. For streams it waits as long as backends may read the last data of clients.
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
	for _, u := range cfg.ProxyUses() {
		if !u.Enabled {
			continue
		}
		name := cmp.Or(u.Name, Default)
		if p, key := u.Proxy(cfg); p != nil {
			out[use{eventByName(u.Event), name}] = place{key, p}
		}
	}
	return out
}
