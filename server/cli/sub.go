package cli

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/cli/client"
)

// Subscribe prints what is published in channels.
type Subscribe struct {
	Remote
	Channels []string
	// Since is the position after which the publications of the one channel begin; nil: from now on.
	Since *protocol.StreamPosition
	// Count is after how many publications the command ends; 0: never.
	Count int
	// JoinLeave also tells who comes and goes.
	JoinLeave bool
}

// errDone ends a client that has printed enough.
var errDone = errors.New("done")

// Run prints until ctx ends, Count is reached, or the server refuses the client.
func (s *Subscribe) Run(ctx context.Context, out *Output) error {
	cfg, err := s.client()
	if err != nil {
		return err
	}
	p := &printer{out: out, named: len(s.Channels) > 1, left: s.Count}
	cfg.JoinLeave, cfg.Handle = s.JoinLeave, p.event
	if cfg.Channels, err = channels(s.Channels, s.Since); err != nil {
		return err
	}
	return done(client.New(cfg).Run(ctx))
}

// done makes success of errDone.
func done(err error) error {
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

func channels(names []string, since *protocol.StreamPosition) ([]client.Channel, error) {
	if since != nil && len(names) > 1 {
		return nil, Usage("since: a position is that of one channel")
	}
	seen, out := map[string]bool{}, make([]client.Channel, 0, len(names))
	for _, name := range names {
		if seen[name] {
			return nil, Usage("channel %q is given twice", name)
		}
		seen[name] = true
		out = append(out, client.Channel{Name: name, Since: since})
	}
	return out, nil
}

// printer prints the events of a client.
type printer struct {
	out   *Output
	named bool // lines begin with the channel
	left  int  // publications until the end; 0: no end
}

// line is an event as JSON.
type line struct {
	Type    client.EventKind  `json:"type"`
	Channel string            `json:"channel,omitempty"`
	Data    json.RawMessage   `json:"data,omitempty"`
	Offset  uint64            `json:"offset,omitempty"`
	Epoch   string            `json:"epoch,omitempty"`
	Key     string            `json:"key,omitempty"`
	Removed bool              `json:"removed,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
	Info    *info             `json:"info,omitempty"`
	// Of subscriptions: Recovered tells whether the publications since the position before were all there.
	Recovering bool `json:"recovering,omitempty"`
	Recovered  bool `json:"recovered,omitempty"`
	// Reason of an end.
	Reason string `json:"reason,omitempty"`
}

type info struct {
	User     string          `json:"user"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

func infoOf(i *protocol.ClientInfo) *info {
	if i == nil {
		return nil
	}
	out := &info{User: i.User, Client: i.Client}
	if len(i.ConnInfo) > 0 {
		out.ConnInfo = compact(i.ConnInfo)
	}
	if len(i.ChanInfo) > 0 {
		out.ChanInfo = compact(i.ChanInfo)
	}
	return out
}

// event prints an event: as JSON to the data, else publications alone, and the rest as messages.
func (p *printer) event(e client.Event) error {
	p.message(e)
	l := line{Type: e.Kind, Channel: e.Channel, Info: infoOf(e.Info)}
	switch e.Kind {
	case client.Published:
		return p.publication(e.Channel, e.Publication)
	case client.Subscribed:
		l.Offset, l.Epoch, l.Recovering, l.Recovered = e.Result.Offset, e.Result.Epoch, e.Result.WasRecovering, e.Result.Recovered
	case client.Sent:
		l.Data = compact(e.Data)
	}
	if e.Err != nil {
		l.Reason = e.Err.Error()
	}
	if !p.out.JSON {
		return nil
	}
	return p.out.object(l)
}

// publication prints one, and returns errDone after the last.
func (p *printer) publication(ch string, pub *protocol.Publication) error {
	var err error
	switch {
	case p.out.JSON:
		l := line{Type: client.Published, Channel: ch, Offset: pub.Offset, Key: pub.Key, Removed: pub.Removed, Tags: pub.Tags, Info: infoOf(pub.Info)}
		if len(pub.Data) > 0 {
			l.Data = compact(pub.Data)
		}
		err = p.out.object(l)
	case p.named:
		err = p.out.line(ch + "\t" + string(compact(pub.Data)))
	default:
		err = p.out.line(string(compact(pub.Data)))
	}
	if p.left--; err == nil && p.left == 0 {
		return errDone
	}
	return err
}

// message tells of what is no data.
func (p *printer) message(e client.Event) {
	switch e.Kind {
	case client.Subscribed:
		p.subscribed(e)
	case client.Disconnected:
		p.out.say("disconnected: %v; connecting again in %.1f s", e.Err, e.Delay.Seconds())
	case client.Unsubscribed:
		p.out.say("%v", e.Err)
	case client.Joined:
		p.out.say("%s: user %q joined (client %s)", e.Channel, e.Info.User, e.Info.Client)
	case client.Left:
		p.out.say("%s: user %q left (client %s)", e.Channel, e.Info.User, e.Info.Client)
	case client.Sent:
		p.out.say("message: %s", compact(e.Data))
	}
}

func (p *printer) subscribed(e client.Event) {
	switch r := e.Result; {
	case r.WasRecovering && r.Recovered:
		p.out.say("subscribed to %s again: nothing is missing", e.Channel)
	case r.WasRecovering:
		p.out.say("subscribed to %s again: publications are missing, because the history does not reach back to the last one", e.Channel)
	case r.Recoverable || r.Positioned:
		p.out.say("subscribed to %s at offset %d, epoch %s", e.Channel, r.Offset, r.Epoch)
	default:
		p.out.say("subscribed to %s, which keeps no history: what comes while the connection is lost is missed", e.Channel)
	}
}
