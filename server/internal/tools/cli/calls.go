package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RPC calls a method.
type RPC struct {
	Remote
	Method string
	Data   []byte
	Text   bool
	// OverAPI calls a method of the server itself, by the server API, instead of one of the backend, as a client.
	OverAPI bool
}

// Run prints the answer.
func (r *RPC) Run(ctx context.Context, out *Output) error {
	data := json.RawMessage("{}")
	if r.Data != nil {
		var err error
		if data, err = payload(r.Data, r.Text); err != nil {
			return UsageError{err}
		}
	}
	if r.OverAPI {
		api, err := r.Caller()
		if err != nil {
			return err
		}
		var res struct {
			Data json.RawMessage `json:"data"`
		}
		if err := api.Call(ctx, "rpc", map[string]any{"method": r.Method, "params": data}, &res); err != nil {
			return err
		}
		return out.line(string(compact(res.Data)))
	}
	c, err := open(ctx, r.Remote)
	if err != nil {
		return err
	}
	defer c.close()
	answer, err := c.RPC(c.ctx, r.Method, data)
	if err != nil {
		return c.why(err)
	}
	if len(answer) == 0 {
		return nil
	}
	return out.line(string(compact(answer)))
}

// Presence prints the clients in channels.
type Presence struct {
	Remote
	Channels []string
	// Stats counts instead.
	Stats bool
}

type present struct {
	Channel  string          `json:"channel"`
	User     string          `json:"user"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

type counted struct {
	Channel    string `json:"channel"`
	NumClients int    `json:"num_clients"`
	NumUsers   int    `json:"num_users"`
}

// Run asks the server API.
func (p *Presence) Run(ctx context.Context, out *Output) error {
	api, err := p.Caller()
	if err != nil {
		return err
	}
	var objects []any
	rows := [][]string{{"CHANNEL", "USER", "CLIENT", "CONN_INFO", "CHAN_INFO"}}
	if p.Stats {
		rows = [][]string{{"CHANNEL", "CLIENTS", "USERS"}}
	}
	for _, ch := range p.Channels {
		request := map[string]string{"channel": ch}
		if p.Stats {
			c := counted{Channel: ch}
			if err := api.Call(ctx, "presence_stats", request, &c); err != nil {
				return err
			}
			objects, rows = append(objects, c), append(rows, []string{ch, strconv.Itoa(c.NumClients), strconv.Itoa(c.NumUsers)})
			continue
		}
		var res struct {
			Presence map[string]present `json:"presence"`
		}
		if err := api.Call(ctx, "presence", request, &res); err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(res.Presence)) {
			c := res.Presence[id]
			c.Channel = ch
			objects, rows = append(objects, c), append(rows, []string{ch, c.User, c.Client, string(c.ConnInfo), string(c.ChanInfo)})
		}
	}
	return out.list(objects, rows)
}

func (o *Output) list(objects []any, rows [][]string) error {
	if !o.JSON {
		return o.table(rows)
	}
	for _, v := range objects {
		if err := o.object(v); err != nil {
			return err
		}
	}
	return nil
}

// Info prints the nodes of the cluster.
type Info struct {
	Remote
}

// Node is a node in the reply to info.
type Node struct {
	UID         string `json:"uid"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	NumClients  int    `json:"num_clients"`
	NumUsers    int    `json:"num_users"`
	NumChannels int    `json:"num_channels"`
	NumSubs     int    `json:"num_subs"`
	Uptime      int    `json:"uptime"` // seconds
	Process     *struct {
		CPU float64 `json:"cpu"` // percent of one processor
		RSS int64   `json:"rss"` // bytes
	} `json:"process,omitempty"`
}

// Nodes asks the server API for the nodes, sorted by name.
func (r Remote) Nodes(ctx context.Context) ([]Node, error) {
	api, err := r.Caller()
	if err != nil {
		return nil, err
	}
	var res struct {
		Nodes []Node `json:"nodes"`
	}
	if err := api.Call(ctx, "info", struct{}{}, &res); err != nil {
		return nil, err
	}
	slices.SortFunc(res.Nodes, func(a, b Node) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return strings.Compare(a.UID, b.UID)
	})
	return res.Nodes, nil
}

// ChannelNames returns the channels that have subscribers.
func (r Remote) ChannelNames(ctx context.Context) ([]string, error) {
	api, err := r.Caller()
	if err != nil {
		return nil, err
	}
	var res struct {
		Channels map[string]any `json:"channels"`
	}
	err = api.Call(ctx, "channels", struct{}{}, &res)
	return slices.Sorted(maps.Keys(res.Channels)), err
}

// Run prints the nodes.
func (i *Info) Run(ctx context.Context, out *Output) error {
	nodes, err := i.Nodes(ctx)
	if err != nil {
		return err
	}
	objects, rows := make([]any, len(nodes)), [][]string{{"NODE", "VERSION", "UPTIME", "CLIENTS", "USERS", "SUBSCRIPTIONS", "CHANNELS", "CPU", "MEMORY"}}
	for n, node := range nodes {
		objects[n] = node
		cpu, memory := "?", "?" // of a node that does not tell
		if p := node.Process; p != nil {
			cpu, memory = fmt.Sprintf("%.1f%%", p.CPU), fmt.Sprintf("%d MiB", p.RSS>>20)
		}
		rows = append(rows, []string{
			node.Name, node.Version, (time.Duration(node.Uptime) * time.Second).String(), strconv.Itoa(node.NumClients), strconv.Itoa(node.NumUsers),
			strconv.Itoa(node.NumSubs), strconv.Itoa(node.NumChannels), cpu, memory,
		})
	}
	return out.list(objects, rows)
}
