package session_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/protocol"
)

// complete fills in what an effect brings. Each takes error=CODE[:message],
// disconnect=CODE and err=text; beside these
//
//	connecting: user= | nobody, info=, expire=seconds from now, client-refresh,
//	  data=; input lines "CHANNEL options…" are server-side subscriptions
//	subscribing: client-refresh, feed and options
//	attach: top=OFFSET:EPOCH, id=, pubs=[…], for the only channel; unfilled, if the error is that
//	  of an application that was to fill the stream; else input lines "CHANNEL top=…"
//	page: top=, pubs= (entries or changes), cursor=
//	presence: here={"client":"user"…} as client=user words; presence_stats: clients= users=
//	history: top=, pubs=; rpc: data=
//	track: expires=SECONDS,… of the batches
//	refresh, sub_refresh: expired, expire=, info=, tf={…}
func (p *player) complete(e effect.Effect, a args, input []string) error {
	err := outcome(a)
	switch e := e.(type) {
	case *effect.Connecting:
		e.Err = err
		return p.identity(&e.Identity, a, input)
	case *effect.Subscribing:
		e.Err = err
		e.ClientRefresh = a.has("client-refresh")
		if a.has("feed") {
			e.Feed = &fakeFeed{p, e.Request.Channel}
		}
		var bad error
		e.Options, bad = p.options(a)
		return bad
	case *effect.Attach:
		return completeAttach(e, err, a, input)
	case *effect.Page:
		e.Err = err
		e.State = channel.State{Cursor: a.str("cursor"), Top: position(a.str("top"))}
		e.History = channel.History{Top: e.State.Top}
		if pubs := publications(a); e.Changes == nil {
			e.State.Entries = pubs
		} else {
			e.History.Publications = pubs
		}
	case *effect.Track:
		e.Err, e.ExpireAt = err, make([]int64, len(e.Request.Track))
		for i, s := range strings.Split(a.str("expires"), ",") {
			if seconds, err := strconv.Atoi(s); err == nil && seconds != 0 {
				e.ExpireAt[i] = p.now/1e9 + int64(seconds)
			}
		}
	case *effect.Detach:
		e.Err = err
	case *effect.Publish:
		e.Err = err
	case *effect.Presence:
		e.Err = err
		e.Clients = make(map[string]*channel.ClientInfo)
		for client, user := range a {
			delete(a, client)
			e.Clients[client] = &channel.ClientInfo{User: user, Client: client}
		}
	case *effect.PresenceStats:
		e.Err, e.Clients, e.Users = err, int(a.num("clients", 0)), int(a.num("users", 0))
	case *effect.History:
		e.Err = err
		e.Top, e.Publications = position(a.str("top")), publications(a)
	case *effect.RPC:
		e.Err, e.Data = err, a.bytes("data")
	case *effect.Message:
		e.Err = err
	case *effect.Refresh:
		e.Err, e.Expired, e.ExpireAt, e.Info = err, a.has("expired"), p.expiry(a), a.bytes("info")
	case *effect.SubRefresh:
		e.Err, e.Expired, e.ExpireAt, e.Info = err, a.has("expired"), p.expiry(a), a.bytes("info")
		e.ServerTagsFilter = filter(a.str("tf"))
	default:
		return fmt.Errorf("%T is not completed", e)
	}
	return nil
}

func completeAttach(e *effect.Attach, err error, a args, input []string) error {
	one := func(it *effect.AttachItem, a args) {
		it.ChannelID, it.Top, it.Publications = a.num("id", 0), position(a.str("top")), publications(a)
	}
	if len(input) == 0 {
		if a.has("unfilled") {
			err = &effect.Unfilled{Err: err}
		}
		for _, it := range e.Items {
			it.Err = err
		}
		one(e.Items[0], a)
		return nil
	}
	for _, line := range input {
		w := words(line)
		for _, it := range e.Items {
			if it.Channel == w[0] {
				a := parseArgs(w[1:])
				it.Err = outcome(a)
				one(it, a)
				if err := a.leftover(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *player) identity(who *effect.Identity, a args, input []string) error {
	who.Known = !a.has("nobody")
	who.User, who.Info, who.Data = a.str("user"), a.bytes("info"), a.bytes("data")
	who.ExpireAt, who.ClientRefresh = p.expiry(a), a.has("client-refresh")
	for _, line := range input {
		w := words(line)
		options := parseArgs(w[1:])
		o, err := p.options(options)
		if err == nil {
			err = options.leftover()
		}
		if err != nil {
			return err
		}
		if who.Subs == nil {
			who.Subs = make(map[string]channel.SubscribeOptions)
		}
		who.Subs[w[0]] = o
	}
	return nil
}

// options of a subscription: positioned, recoverable, cache, auto, presence,
// emit, push, expire=, info=, data=, delta, allow-tf, tf={…}, compact,
// since=OFFSET:EPOCH, initial=[…], debounce=; map=data|clients|users, with ephemeral, page=,
// min-page=, max-page=, live=, catch-up=; poll, with keep, keys=, no-track.
func (p *player) options(a args) (channel.SubscribeOptions, error) {
	o := channel.SubscribeOptions{
		ExpireAt: channel.FromUnix(p.expiry(a)), ChanInfo: a.bytes("info"), Data: a.bytes("data"),
		Presence: a.has("presence"), EmitJoinLeave: a.has("emit"), PushJoinLeave: a.has("push"),
		Positioned: a.has("positioned"), Recoverable: a.has("recoverable"), AutoRecover: a.has("auto"),
		AllowDelta: a.has("delta"), AllowTagsFilter: a.has("allow-tf"), AllowCompaction: a.has("compact"),
		ServerTagsFilter: filter(a.str("tf")), HistoryMetaTTL: a.dur("meta", 0), PublishDebounce: a.dur("debounce", 0),
	}
	if a.has("cache") {
		o.RecoveryMode = channel.RecoverCache
	}
	if since := a.str("since"); since != "" {
		pos := position(since)
		o.RecoverSince = &pos
	}
	if kind := a.str("map"); kind != "" {
		o.Map = &channel.MapSubscription{
			Kind:      map[string]channel.MapKind{"data": channel.MapData, "clients": channel.MapClients, "users": channel.MapUsers}[kind],
			Ephemeral: a.has("ephemeral"), PageSize: int(a.num("page", 0)), MinPageSize: int(a.num("min-page", 0)),
			MaxPageSize: int(a.num("max-page", 0)), LiveLimit: int(a.num("live", 0)),
			CatchUpTimeout: a.dur("catch-up", 0),
		}
	}
	if a.has("poll") {
		o.Poll = &channel.SharedPoll{
			Versioned: true, KeepLatest: a.has("keep"), MaxKeys: int(a.num("keys", 0)), Linger: -1, Poll: neverPolled,
		}
		if !a.has("no-track") {
			o.Poll.Track = func(context.Context, *channel.TrackRequest) error { return nil }
		}
	}
	if initial := a.str("initial"); initial != "" {
		o.Publications = publicationList(initial)
	}
	return o, nil
}

// expiry is expire=seconds from now.
func (p *player) expiry(a args) int64 {
	if s, ok := a["expire"]; !ok || s == "never" {
		delete(a, "expire")
		return 0
	}
	return p.env.Wall()/1e9 + a.num("expire", 0)
}

func position(s string) channel.StreamPosition {
	offset, epoch, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(offset, 10, 64)
	if err != nil && s != "" {
		panic(err)
	}
	return channel.StreamPosition{Offset: n, Epoch: epoch}
}

func filter(s string) *protocol.FilterNode {
	if s == "" {
		return nil
	}
	f := new(protocol.FilterNode)
	if err := f.UnmarshalJSON([]byte(s)); err != nil {
		panic(err)
	}
	return f
}

func publications(a args) []*channel.Publication {
	s := a.str("pubs")
	if s == "" {
		return nil
	}
	return publicationList(s)
}

func publicationList(s string) []*channel.Publication {
	var r protocol.HistoryResult
	if err := r.UnmarshalJSON([]byte(`{"publications":` + s + `}`)); err != nil {
		panic(err)
	}
	var out []*channel.Publication
	for _, p := range r.Publications {
		out = append(out, &channel.Publication{
			Offset: p.Offset, Data: p.Data, Tags: p.Tags, Version: p.Version, Removed: p.Removed, Key: p.Key,
			Info: p.Info,
		})
	}
	return out
}

// outcome is the error that an effect ends with.
func outcome(a args) error {
	if text := a.str("err"); text != "" {
		return errors.New(text)
	}
	if d := a.str("disconnect"); d != "" {
		v, err := disconnectOf(d)
		if err != nil {
			panic(err)
		}
		return v
	}
	code, message, _ := strings.Cut(a.str("error"), ":")
	if code == "" {
		return nil
	}
	n, err := strconv.Atoi(code)
	if err != nil {
		panic(err)
	}
	for _, e := range []*protocol.Error{
		protocol.ErrorInternal, protocol.ErrorPermissionDenied, protocol.ErrorTokenExpired,
		protocol.ErrorUnrecoverablePosition, protocol.ErrorTooManyRequests, protocol.ErrorNotAvailable,
	} {
		if e.Code == uint32(n) {
			return e
		}
	}
	return &protocol.Error{Code: uint32(n), Message: message}
}

func disconnectOf(code string) (protocol.Disconnect, error) {
	n, err := strconv.Atoi(code)
	for _, d := range []protocol.Disconnect{
		protocol.DisconnectConnectionClosed, protocol.DisconnectShutdown, protocol.DisconnectWriteError,
		protocol.DisconnectForceNoReconnect, protocol.DisconnectInvalidToken, protocol.DisconnectStateInvalidated,
	} {
		if d.Code == uint32(n) {
			return d, err
		}
	}
	return protocol.Disconnect{Code: uint32(n), Reason: "custom"}, err
}
