package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/protocol"
)

// Names of surveys that begin with reservedOps or ownOps are not the application's.
const (
	opChannels  = "channels"
	reservedOps = "centrifuge_"
	ownOps      = "gyro_"
)

// OpTap is the survey of taps.
const OpTap = ownOps + "tap"

// Reserved tells whether the application must not give a survey this name.
func Reserved(op string) bool {
	return op == "" || op == opChannels || strings.HasPrefix(op, reservedOps) || strings.HasPrefix(op, ownOps)
}

// Channels returns the channels of all nodes that match a pattern, and the number of their subscribers. If only silent
// nodes have not answered, it returns the channels of the others with an error that names the silent ones.
func (c *Cluster) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	match, err := compileGlob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%w: pattern %.40q: %w", protocol.ErrorBadRequest, pattern, err)
	}
	if c.alone() {
		return c.cfg.Handler.Channels(ctx, match)
	}
	req := control.ChannelsRequest{Pattern: pattern}
	answers, missing := c.Survey(ctx, opChannels, req.AppendProto(nil), "")
	if missing != nil && !errors.Is(missing, errSilent) {
		return nil, missing
	}
	channels := make(map[string]int)
	for uid, a := range answers {
		var res control.ChannelsResponse
		if a.Code != CodeOK {
			return nil, fmt.Errorf("gyro: channels of node %s: code %d: %.200q", uid, a.Code, a.Data)
		}
		if err := res.UnmarshalProto(a.Data); err != nil {
			return nil, fmt.Errorf("gyro: channels of node %s: %w", uid, err)
		}
		for ch, i := range res.Channels {
			channels[ch] += int(i.NumClients)
		}
	}
	return channels, missing
}

func (c *Cluster) answerChannels(ctx context.Context, data []byte) Answer {
	var req control.ChannelsRequest
	if err := req.UnmarshalProto(data); err != nil {
		return Answer{CodeInvalid, []byte(err.Error())}
	}
	match, err := compileGlob(req.Pattern)
	if err != nil {
		return Answer{CodeInvalid, []byte(err.Error())}
	}
	channels, err := c.cfg.Handler.Channels(ctx, match)
	if err != nil {
		return failed(err.Error())
	}
	// One allocation for all: there may be a million.
	infos := make([]control.ChannelInfo, len(channels))
	res := control.ChannelsResponse{Channels: make(map[string]*control.ChannelInfo, len(channels))}
	i := 0
	for ch, n := range channels {
		infos[i].NumClients = uint32(n)
		res.Channels[ch] = &infos[i]
		i++
	}
	return Answer{Data: res.AppendProto(nil)}
}
