package session_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// formatReply shows a reply as JSON, whatever its encoding was: payloads that are
// not JSON as strings.
func formatReply(r *protocol.Reply) string {
	if r.Push != nil {
		showData(r.Push.Pub)
	}
	if r.Subscribe != nil {
		showData(r.Subscribe.Publications...)
		showData(r.Subscribe.State...)
		if d := &r.Subscribe.Data; len(*d) > 0 && !codec.ValidJSON(*d) {
			*d = codec.AppendJSONString(nil, []byte(fmt.Sprintf("%+q", *d)))
		}
	}
	if r.Connect == nil || len(r.Connect.Subs) < 2 {
		return text(r)
	}
	for _, res := range r.Connect.Subs {
		showData(res.Publications...)
	}
	connect := *r.Connect
	connect.Subs = nil
	return text(&protocol.Reply{ID: r.ID, Connect: &connect}) + formatSubs(r.Connect.Subs)
}

// formatPush shows a bare push likewise.
func formatPush(p *protocol.Push) string {
	showData(p.Pub)
	if p.Connect == nil || len(p.Connect.Subs) < 2 {
		return text(p)
	}
	connect := *p.Connect
	connect.Subs = nil
	return text(&protocol.Push{Connect: &connect}) + formatSubs(p.Connect.Subs)
}

// formatSubs shows several subscriptions on lines of their own, by channel: a map has no order.
func formatSubs[M appender](subs map[string]M) string {
	var out strings.Builder
	for _, ch := range slices.Sorted(maps.Keys(subs)) {
		fmt.Fprintf(&out, "\n  and sub %s %s", ch, text(subs[ch]))
	}
	return out.String()
}

func formatConnect(r *protocol.ConnectRequest) string {
	if len(r.Subs) < 2 {
		return text(r)
	}
	alone := *r
	alone.Subs = nil
	return text(&alone) + formatSubs(r.Subs)
}

func showData(pubs ...*protocol.Publication) {
	for _, p := range pubs {
		if p != nil && !codec.ValidJSON(p.Data) && len(p.Data) > 0 {
			p.Data = codec.AppendJSONString(nil, []byte(fmt.Sprintf("%+q", p.Data)))
		}
	}
}

type appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

func text(m appender) string {
	b, err := m.AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// formatEffect shows an effect: its name and what it asks for.
func formatEffect(e effect.Effect) string {
	switch e := e.(type) {
	case *effect.Connecting:
		return "connecting " + formatConnect(e.Request)
	case *effect.Connected:
		return "connected"
	case *effect.Subscribing:
		return "subscribing " + text(e.Request)
	case *effect.Attach:
		slices.SortFunc(e.Items, func(a, b *effect.AttachItem) int { return cmp.Compare(a.Channel, b.Channel) })
		return "attach " + list(e.Items, formatAttach)
	case *effect.Page:
		if f := e.Changes; f != nil {
			return fmt.Sprintf("page %s changes=since:%d limit=%d", e.Channel, f.Since.Offset, f.Limit)
		}
		return fmt.Sprintf("page %s entries limit=%d", e.Channel, e.Limit) + when(e.Cursor != "", "cursor="+e.Cursor)
	case *effect.Detach:
		return "detach " + list(e.Items, formatDetach)
	case *effect.Undo:
		return "undo " + list(e.Items, formatDetach)
	case *effect.Join:
		return "join " + e.Channel + " " + formatInfo(e.Info)
	case *effect.Publish:
		return "publish " + text(e.Request) + " " + formatInfo(e.Info) + subscribed(e.Subscribed) + when(e.Feed != nil, "feed")
	case *effect.Presence:
		return "presence " + e.Channel + subscribed(e.Subscribed)
	case *effect.PresenceStats:
		return "presence_stats " + e.Channel + subscribed(e.Subscribed)
	case *effect.History:
		s := fmt.Sprintf("history %s limit=%d", e.Channel, e.Limit)
		if e.Since != nil {
			s += fmt.Sprintf(" since=%d:%s", e.Since.Offset, e.Since.Epoch)
		}
		return s + when(e.Reverse, "reverse") + subscribed(e.Subscribed)
	case *effect.RPC:
		return "rpc " + text(e.Request)
	case *effect.Message:
		return "message " + string(e.Data)
	case *effect.Refresh:
		return "refresh" + when(e.ClientSide, "token="+e.Token)
	case *effect.SubRefresh:
		return "sub_refresh " + e.Channel + when(e.ClientSide, "token="+e.Token)
	case *effect.Track:
		return "track " + text(e.Request)
	case *effect.Renew:
		slices.SortFunc(e.Items, func(a, b effect.RenewItem) int { return cmp.Compare(a.Channel, b.Channel) })
		return "renew " + list(e.Items, func(it effect.RenewItem) string { return it.Channel + " " + formatInfo(it.Info) })
	case *effect.Close:
		return fmt.Sprintf("close %d", e.Disconnect.Code) + when(e.Connected, "connected") +
			when(len(e.Items) > 0, "detach "+list(e.Items, formatDetach))
	}
	return fmt.Sprintf("%T", e)
}

func formatAttach(it *effect.AttachItem) string {
	s := it.Channel + when(it.Info != nil, "presence")
	switch {
	case it.Since != nil:
		s += fmt.Sprintf(" read=since:%d limit=%d", it.Since.Offset, it.Limit)
	case it.Reverse:
		s += fmt.Sprintf(" read=latest limit=%d", it.Limit)
	case it.Positioned:
		s += " read=top"
	}
	return s + when(it.MetaTTL > 0, fmt.Sprintf("meta=%v", it.MetaTTL))
}

func formatDetach(it effect.DetachItem) string {
	return fmt.Sprintf("%s code=%d", it.Channel, it.Reason.Code) + when(it.ServerSide, "server-side") + when(!it.Connected, "not connected") +
		when(it.Presence, "presence") + when(it.Leave, "leave") + when(it.Feed != nil, "feed")
}

func formatInfo(i *channel.ClientInfo) string {
	if i == nil {
		return "nobody"
	}
	return text(i)
}

func subscribed(b bool) string { return when(b, "subscribed") }

func when(b bool, s string) string {
	if !b {
		return ""
	}
	return " " + s
}

func list[T any](items []T, f func(T) string) string {
	var parts []string
	for _, it := range items {
		parts = append(parts, f(it))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
