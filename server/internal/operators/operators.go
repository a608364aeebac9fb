// Package operators has the endpoints of the admin web interface for operators that have logged in
// (docs/admin.md#the-endpoints).
package operators

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/operators/admin"
)

const (
	// maxStreams bounds the operators that watch channels, and those that watch the log.
	maxStreams   = 64
	logWriteTime = 10 * time.Second
	// logQuietTime is quietTime for the log.
	logQuietTime = 25 * time.Second
)

// Config of the endpoints.
type Config struct {
	Node          *gyro.Node
	Name, Version string
	// Commands serves the legacy endpoint of the server API.
	Commands http.Handler
	// Each request calls InForce and Channels.
	InForce  func() *config.Config
	Channels func() *channels.Resolver
	Figures  func() any
	Vitals   *Cluster
	Recent   *logs.Recent
	// Others check their methods themselves.
	Others map[string]http.Handler
	Done   <-chan struct{}
}

type console struct{ Config }

// Endpoints returns the endpoints by their names.
func Endpoints(c Config) map[string]admin.Endpoint {
	d := &console{c}
	get := func(answer func() any) admin.Endpoint {
		return admin.Endpoint{Method: http.MethodGet, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			admin.Answer(w, answer())
		})}
	}
	post := func(h http.Handler) admin.Endpoint { return admin.Endpoint{Method: http.MethodPost, Handler: h} }
	endpoints := map[string]admin.Endpoint{
		"api":     post(c.Commands),
		"health":  get(func() any { return map[string]any{"parts": c.Vitals.Parts()} }),
		"nodes":   report(c.Vitals.Report),
		"history": report(c.Vitals.History),
		"clients": {Method: http.MethodGet, Handler: newLister(c.Node)},
		"config":  get(func() any { return map[string]any{"keys": c.InForce().View()} }),
		"figures": get(c.Figures),
		"channel": post(http.HandlerFunc(d.describeChannel)),
		"tail":    post(bounded(d.tail())),
	}
	if c.Recent != nil {
		endpoints["logs"] = admin.Endpoint{Method: http.MethodGet, Handler: bounded(http.HandlerFunc(d.followLog))}
	}
	for name, h := range c.Others {
		endpoints[name] = admin.Endpoint{Handler: h}
	}
	names := []string{"about"}
	for name := range endpoints {
		names = append(names, name)
	}
	slices.Sort(names)
	endpoints["about"] = get(func() any { return d.about(names) })
	return endpoints
}

// about lists what this server has. The interface calls only these methods: the refusal of another one would count as a
// refusal of the application.
func (d *console) about(endpoints []string) any {
	methods := make([]string, 0, len(api.Methods()))
	for _, m := range api.Methods() {
		if !strings.HasSuffix(m.String(), "_user_status") || d.InForce().UserStatus.Enabled {
			methods = append(methods, m.String())
		}
	}
	types := make(map[string]string)
	d.Channels().Each(func(of *channels.Options) { types[of.Name] = cmp.Or(of.SubscriptionType, config.TypeStream) })
	return map[string]any{
		"version": d.Version, "node": d.Name, "uid": d.Node.UID(), "endpoints": endpoints, "methods": methods, "namespaces": types,
	}
}

func report(of func(ctx context.Context) (*Report, error)) admin.Endpoint {
	return admin.Endpoint{Method: http.MethodGet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told, err := of(r.Context())
		if err != nil {
			http.Error(w, "Service Unavailable: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		// The browser learns by how much its clock differs.
		admin.Answer(w, struct {
			*Report
			Now int64 `json:"now"`
		}{told, time.Now().UnixMilli()})
	})}
}

// bounded refuses requests beyond maxStreams at a time.
func bounded(next http.Handler) http.Handler {
	free := make(chan struct{}, maxStreams)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("Too Many Requests: %d of these streams are open, which is the limit", maxStreams), http.StatusTooManyRequests)
		}
	})
}

func (d *console) followLog(w http.ResponseWriter, r *http.Request) {
	_, _ = readBody(w, r, 1)
	answer := newLines(w, logWriteTime)
	alive := time.NewTicker(logQuietTime)
	defer alive.Stop()
	var next uint64
	for idle := false; ; {
		var recent [][]byte
		var more <-chan struct{}
		recent, next, more = d.Recent.Since(next)
		if text := bytes.Join(recent, nil); len(text) > 0 || idle || !answer.begun {
			if answer.write(text) != nil {
				return
			}
		}
		idle = false
		select {
		case <-more:
		case <-alive.C:
			idle = true
		case <-r.Context().Done():
			return
		case <-d.Done:
			return
		}
	}
}

func (d *console) askedChannel(w http.ResponseWriter, r *http.Request) (name string, ch channels.Channel, err error) {
	var asked struct {
		Channel string `json:"channel"`
	}
	body, err := readBody(w, r, 64<<10)
	if err != nil || json.Unmarshal(body, &asked) != nil || asked.Channel == "" {
		return "", ch, errors.New(`expected {"channel":"NAME"}`)
	}
	ch, err = d.Channels().Named(asked.Channel)
	return asked.Channel, ch, err
}

func (d *console) describeChannel(w http.ResponseWriter, r *http.Request) {
	_, ch, err := d.askedChannel(w, r)
	if err != nil {
		http.Error(w, "Bad Request: "+err.Error(), http.StatusBadRequest)
		return
	}
	admin.Answer(w, map[string]any{
		"namespace": ch.Options.Name, "type": cmp.Or(ch.SubscriptionType, config.TypeStream),
		"maps": ch.Type >= channels.Map && ch.Type <= channels.MapUsers, "options": config.ViewOptions(&ch.ChannelOptions),
	})
}
