package control

import (
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// SetOptions sets the options of the subscription, without Map, as a server makes no subscriptions to maps, and without
// PublishDebounce, which only a client that subscribes itself gets.
func (m *Subscribe) SetOptions(o *channel.SubscribeOptions) {
	*m = Subscribe{
		User: m.User, AnyUser: m.AnyUser, Channel: m.Channel, Client: m.Client, Session: m.Session,
		EmitPresence: o.Presence, EmitJoinLeave: o.EmitJoinLeave, PushJoinLeave: o.PushJoinLeave,
		ExpireAt: channel.ToUnix(o.ExpireAt), Position: o.Positioned, Recover: o.Recoverable,
		ChannelInfo: o.ChanInfo, Data: o.Data, Source: uint32(o.Source),
		RecoveryMode: uint32(o.RecoveryMode), AutoRecover: o.AutoRecover,
		HistoryMetaTTL: int64(o.HistoryMetaTTL), AllowDelta: o.AllowDelta,
		AllowTagsFilter: o.AllowTagsFilter, AllowCompaction: o.AllowCompaction,
		BatchMaxDelay: int64(o.BatchMaxDelay), BatchMaxSize: int64(o.BatchMaxSize), BatchFlushLatest: o.BatchFlushLatest,
		RecoverSince: (*Position)(o.RecoverSince), Rights: uint32(o.Rights), Needs: uint32(o.Needs),
	}
	for _, p := range o.PresenceMaps {
		m.PresenceMaps = append(m.PresenceMaps, &PresenceMap{
			Channel: p.Channel, Kind: uint32(p.Kind), KeyTTL: int64(p.Options.KeyTTL),
			StreamSize: int64(p.Options.StreamSize), StreamTTL: int64(p.Options.StreamTTL), MetaTTL: int64(p.Options.MetaTTL),
		})
	}
	if f := o.ServerTagsFilter; f != nil {
		m.ServerTagsFilter = f.AppendProto(nil)
	}
	if len(o.Publications) > 0 {
		var initial protocol.SubscribeResult
		for _, p := range o.Publications {
			initial.Publications = append(initial.Publications, new(p.Message()))
		}
		m.Initial = initial.AppendProto(nil)
	}
}

// Options undoes SetOptions.
func (m *Subscribe) Options() (*channel.SubscribeOptions, error) {
	o := &channel.SubscribeOptions{
		Presence: m.EmitPresence, EmitJoinLeave: m.EmitJoinLeave, PushJoinLeave: m.PushJoinLeave,
		ExpireAt: channel.FromUnix(m.ExpireAt), Positioned: m.Position, Recoverable: m.Recover,
		ChanInfo: m.ChannelInfo, Data: m.Data, Source: uint8(m.Source), AutoRecover: m.AutoRecover,
		HistoryMetaTTL: time.Duration(m.HistoryMetaTTL), AllowDelta: m.AllowDelta,
		AllowTagsFilter: m.AllowTagsFilter, AllowCompaction: m.AllowCompaction,
		BatchMaxDelay: time.Duration(m.BatchMaxDelay), BatchMaxSize: int(m.BatchMaxSize), BatchFlushLatest: m.BatchFlushLatest,
		RecoverSince: (*channel.StreamPosition)(m.RecoverSince), Rights: channel.Rights(m.Rights), Needs: channel.Rights(m.Needs),
	}
	if m.RecoveryMode == uint32(channel.RecoverCache) {
		o.RecoveryMode = channel.RecoverCache
	}
	for _, p := range m.PresenceMaps {
		o.PresenceMaps = append(o.PresenceMaps, channel.PresenceMap{
			Channel: p.Channel, Kind: channel.MapKind(p.Kind), Options: channel.MapOptions{
				KeyTTL: time.Duration(p.KeyTTL), StreamSize: int(p.StreamSize),
				StreamTTL: time.Duration(p.StreamTTL), MetaTTL: time.Duration(p.MetaTTL),
			},
		})
	}
	if len(m.ServerTagsFilter) > 0 {
		o.ServerTagsFilter = new(protocol.FilterNode)
		if err := o.ServerTagsFilter.UnmarshalProto(m.ServerTagsFilter); err != nil {
			return nil, err
		}
	}
	if len(m.Initial) > 0 {
		var initial protocol.SubscribeResult
		if err := initial.UnmarshalProto(m.Initial); err != nil {
			return nil, err
		}
		for _, p := range initial.Publications {
			o.Publications = append(o.Publications, channel.FromMessage(p))
		}
	}
	return o, nil
}
