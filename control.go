package gyro

import (
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/protocol"
)

// subscribeCommand is a server-side subscription as other nodes are told of it.
func subscribeCommand(user, ch string, cfg *subscribeConfig) *control.Subscribe {
	o := &cfg.opts
	c := &control.Subscribe{
		User: user, Channel: ch, Client: cfg.client, Session: cfg.session,
		EmitPresence: o.Presence, EmitJoinLeave: o.EmitJoinLeave, PushJoinLeave: o.PushJoinLeave,
		ExpireAt: o.ExpireAt, Position: o.Positioned, Recover: o.Recoverable,
		ChannelInfo: o.ChanInfo, Data: o.Data, Source: uint32(o.Source),
		RecoveryMode: uint32(o.RecoveryMode), AutoRecover: o.AutoRecover,
		HistoryMetaTTL: int64(o.HistoryMetaTTL), AllowDelta: o.AllowDelta,
		AllowTagsFilter: o.AllowTagsFilter, AllowCompaction: o.AllowCompaction,
		BatchMaxDelay: int64(o.BatchMaxDelay), BatchMaxSize: int64(o.BatchMaxSize),
	}
	if p := o.RecoverSince; p != nil {
		c.RecoverSince = &control.Position{Offset: p.Offset, Epoch: p.Epoch}
	}
	if f := o.ServerTagsFilter; f != nil {
		c.ServerTagsFilter = f.AppendProto(nil)
	}
	if len(o.Publications) > 0 {
		var initial protocol.SubscribeResult
		for _, p := range o.Publications {
			initial.Publications = append(initial.Publications, publicationMessage(p))
		}
		c.Initial = initial.AppendProto(nil)
	}
	return c
}

// subscribeOptions undoes subscribeCommand.
func subscribeOptions(c *control.Subscribe) (*SubscribeOptions, error) {
	o := &SubscribeOptions{
		Presence: c.EmitPresence, EmitJoinLeave: c.EmitJoinLeave, PushJoinLeave: c.PushJoinLeave,
		ExpireAt: c.ExpireAt, Positioned: c.Position, Recoverable: c.Recover,
		ChanInfo: c.ChannelInfo, Data: c.Data, Source: uint8(c.Source), AutoRecover: c.AutoRecover,
		HistoryMetaTTL: time.Duration(c.HistoryMetaTTL), AllowDelta: c.AllowDelta,
		AllowTagsFilter: c.AllowTagsFilter, AllowCompaction: c.AllowCompaction,
		BatchMaxDelay: time.Duration(c.BatchMaxDelay), BatchMaxSize: int(c.BatchMaxSize),
	}
	if c.RecoveryMode == uint32(channel.RecoverCache) {
		o.RecoveryMode = channel.RecoverCache
	}
	if p := c.RecoverSince; p != nil {
		o.RecoverSince = &StreamPosition{Offset: p.Offset, Epoch: p.Epoch}
	}
	if len(c.ServerTagsFilter) > 0 {
		o.ServerTagsFilter = new(protocol.FilterNode)
		if err := o.ServerTagsFilter.UnmarshalProto(c.ServerTagsFilter); err != nil {
			return nil, err
		}
	}
	if len(c.Initial) > 0 {
		var initial protocol.SubscribeResult
		if err := initial.UnmarshalProto(c.Initial); err != nil {
			return nil, err
		}
		for _, p := range initial.Publications {
			o.Publications = append(o.Publications, publicationOf(p))
		}
	}
	return o, nil
}

func publicationMessage(p *Publication) *protocol.Publication {
	m := &protocol.Publication{
		Data: p.Data, Offset: p.Offset, Tags: p.Tags, Time: p.Time,
		Channel: p.Channel, Key: p.Key, Removed: p.Removed, Score: p.Score,
	}
	if i := p.Info; i != nil {
		m.Info = &protocol.ClientInfo{User: i.User, Client: i.Client, ConnInfo: i.ConnInfo, ChanInfo: i.ChanInfo}
	}
	return m
}

func publicationOf(m *protocol.Publication) *Publication {
	p := &Publication{
		Data: m.Data, Offset: m.Offset, Tags: m.Tags, Time: m.Time,
		Channel: m.Channel, Key: m.Key, Removed: m.Removed, Score: m.Score,
	}
	if i := m.Info; i != nil {
		p.Info = &ClientInfo{User: i.User, Client: i.Client, ConnInfo: i.ConnInfo, ChanInfo: i.ChanInfo}
	}
	return p
}
