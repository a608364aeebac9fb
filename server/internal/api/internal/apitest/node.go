// Package apitest has a node and channel options for tests of the API.
package apitest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Node records its calls, and returns prepared answers.
type Node struct {
	Err    error
	FailIn string
	Result gyro.PublishResult
	Hook   func()

	PresenceMap map[string]*gyro.ClientInfo
	Stats       gyro.PresenceStats
	Stream      gyro.History
	Subscribers map[string]int
	Cluster     []gyro.NodeInfo
	Found       inspect.Connections
	Log         inspect.Log

	mu    sync.Mutex
	calls []string
	opts  []gyro.PublishOptions
}

// Calls returns the calls since the last Calls, one line each.
func (n *Node) Calls() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls := n.calls
	n.calls = nil
	return calls
}

// PublishOptions returns the options of publications since the last call.
func (n *Node) PublishOptions() []gyro.PublishOptions {
	n.mu.Lock()
	defer n.mu.Unlock()
	opts := n.opts
	n.opts = nil
	return opts
}

// Statuses records "status METHOD USERS STATE". Active is the length of the user's ID.
type Statuses struct{ *Node }

// Update implements api.Statuses.
func (s Statuses) Update(_ context.Context, users []string, state string) error {
	return s.record("status update %s %s", strings.Join(users, ","), state)
}

// Get implements api.Statuses.
func (s Statuses) Get(_ context.Context, users []string) (list []api.UserStatus, err error) {
	for _, user := range users {
		list = append(list, api.UserStatus{User: user, Active: int64(len(user))})
	}
	return list, s.record("status get %s", strings.Join(users, ","))
}

// Delete implements api.Statuses.
func (s Statuses) Delete(_ context.Context, users []string) error {
	return s.record("status delete %s", strings.Join(users, ","))
}

func (n *Node) record(format string, args ...any) error {
	if n.Hook != nil {
		n.Hook()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, strings.TrimSpace(fmt.Sprintf(format, args...)))
	return n.Err
}

func to(t gyro.Target) string { return t.User + "/" + t.Client + "/" + t.Session }

// PublishBatch records a call "publish a,b data" for each payload.
func (n *Node) PublishBatch(_ context.Context, batch []gyro.BatchPublication) {
	for from := 0; from < len(batch); {
		to := from
		var list []string
		for ; to < len(batch) && bytes.Equal(batch[to].Data, batch[from].Data); to++ {
			list = append(list, batch[to].Channel)
			n.mu.Lock()
			n.opts = append(n.opts, *batch[to].Options)
			n.mu.Unlock()
		}
		err := n.record("publish %s %s", strings.Join(list, ","), batch[from].Data)
		for ; from < to; from++ {
			p := &batch[from]
			p.Result, p.Err = n.Result, err
			if p.Channel == n.FailIn {
				p.Err = fmt.Errorf("broker is down")
			}
		}
	}
}

func (n *Node) Subscribe(_ context.Context, t gyro.Target, ch string, o *gyro.SubscribeOptions) error {
	return n.record("subscribe %s %s %+v", to(t), ch, *o)
}

// Unsubscribe gets no code and reason.
func (n *Node) Unsubscribe(_ context.Context, t gyro.Target, ch string, u *gyro.Unsubscribe) error {
	return n.record("unsubscribe %s %s %v", to(t), ch, u)
}

func (n *Node) Disconnect(_ context.Context, t gyro.Target, o *gyro.DisconnectOptions) error {
	if o.Disconnect == nil {
		return n.record("disconnect %s %s", to(t), o.Whitelist)
	}
	return n.record("disconnect %s %s %+v", to(t), o.Whitelist, *o.Disconnect)
}

func (n *Node) Refresh(_ context.Context, t gyro.Target, o *gyro.RefreshOptions) error {
	return n.record("refresh %s %v %d %s", to(t), o.Expired, channel.ToUnix(o.ExpireAt), o.Info)
}

func (n *Node) Presence(_ context.Context, ch string) (map[string]*gyro.ClientInfo, error) {
	return n.PresenceMap, n.record("presence %s", ch)
}

func (n *Node) PresenceStats(_ context.Context, ch string) (gyro.PresenceStats, error) {
	return n.Stats, n.record("presence_stats %s", ch)
}

func (n *Node) History(_ context.Context, ch string, f *gyro.HistoryFilter) (gyro.History, error) {
	since := "all"
	if f.Since != nil {
		since = fmt.Sprint(*f.Since)
	}
	return n.Stream, n.record("history %s %s %d %v %v", ch, since, f.Limit, f.Reverse, f.MetaTTL)
}

func (n *Node) RemoveHistory(_ context.Context, ch string) error {
	return n.record("history_remove %s", ch)
}

func (n *Node) Channels(_ context.Context, pattern string) (map[string]int, error) {
	return n.Subscribers, n.record("channels %s", pattern)
}

func (n *Node) Nodes(context.Context) ([]gyro.NodeInfo, error) {
	return n.Cluster, n.record("info")
}

// MaxLength is the longest name of a channel, in bytes.
const MaxLength = 255

// Namespaces returns channels with a namespace for every option of the API.
func Namespaces() func() *channels.Resolver {
	c := config.DefaultConfig().Channel
	c.MaxLength, c.HistoryMetaTTL = MaxLength, 0
	add := func(name string, o config.ChannelOptions) {
		c.Namespaces = append(c.Namespaces, config.Namespace{Name: name, ChannelOptions: o})
	}
	add("full", config.ChannelOptions{
		Presence: true, HistorySize: 10, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour,
		BatchMaxDelay: time.Second, BatchMaxSize: 5,
	})
	add("delta", config.ChannelOptions{HistorySize: 5, HistoryTTL: time.Second, DeltaPublish: true})
	add("sub", config.ChannelOptions{
		JoinLeave: true, ForcePushJoinLeave: true, ForceRecovery: true, ForcePositioning: true, Presence: true,
		SubscriptionType: "stream",
	})
	add("size", config.ChannelOptions{HistorySize: 10})
	add("ttl", config.ChannelOptions{HistoryTTL: time.Second})
	for name, format := range map[string]string{"json": "json", "object": "json_object", "binary": "binary"} {
		add(name, config.ChannelOptions{PublicationDataFormat: format})
	}
	add("map", config.ChannelOptions{SubscriptionType: "map"})
	add("clients", config.ChannelOptions{SubscriptionType: "map_clients", DeltaPublish: true})
	add("users", config.ChannelOptions{SubscriptionType: "map_users"})
	add("poll", config.ChannelOptions{SubscriptionType: "shared_poll", SharedPoll: config.SharedPollOptions{PublishEnabled: true}})
	add("pollro", config.ChannelOptions{SubscriptionType: "shared_poll"})
	r, err := channels.NewResolver(c, config.PersonalChannel{})
	if err != nil {
		panic(err)
	}
	return func() *channels.Resolver { return r }
}

// Connections records "connections FILTER".
func (n *Node) Connections(_ context.Context, f inspect.Filter) (inspect.Connections, error) {
	var filter []byte
	if f.Labels != nil {
		filter, _ = f.Labels.AppendJSON(nil)
	}
	return n.Found, n.record("connections %s/%s/%s %d %s%s", f.User, f.Client, f.Channel, f.Limit, filter, f.Expression)
}

// Flight records "flight QUERY".
func (n *Node) Flight(_ context.Context, q inspect.Query) (inspect.Log, error) {
	log := n.Log
	log.Events = slices.Clone(log.Events) // the caller's
	return log, n.record("flight %s/%s/%s %d %v %v", q.User, q.Client, q.Channel, q.Limit, q.Nodes, q.Since.UTC())
}
