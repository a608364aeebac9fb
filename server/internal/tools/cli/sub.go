package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"github.com/gyrohq/gyro/client"
)

// Subscribe prints the publications of channels.
type Subscribe struct {
	Remote
	Channels []string
	// Since is the position after which the publications of the one channel begin; nil: from now on.
	Since *client.StreamPosition
	// Count of publications after which the command ends; 0: never.
	Count     int
	JoinLeave bool
	Kind
	// Once ends the command when the state of all maps is printed.
	Once bool
}

var errDone = errors.New("done")

// Run prints until ctx ends, Count is reached, or the server refuses the client.
func (s *Subscribe) Run(ctx context.Context, out *Output) error {
	if err := s.check(s.Channels); err != nil {
		return err
	}
	if s.Once && !s.isMap() {
		return Usage("once: only maps have a state that comes to an end")
	}
	switch {
	case s.Since != nil && s.Type != Stream:
		return Usage("since: only streams begin after a position")
	case s.Since != nil && len(s.Channels) > 1:
		return Usage("since: a position is that of one channel")
	}
	p := newPrinter(out, s.Channels, s.Kind, s.Count)
	handle := p.event
	if s.Once {
		handle = func(e client.Event) error {
			if err := p.event(e); err != nil || len(p.begun) < len(s.Channels) {
				return err
			}
			return errDone
		}
	}
	c, subs, err := s.subscriptions(s.Channels, s.Kind, s.JoinLeave, s.Since)
	if err != nil {
		return err
	}
	defer c.Close()
	return done(s.follow(ctx, c, subs, handle))
}

func done(err error) error {
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

type printer struct {
	out   *Output
	kind  Kind
	named bool // lines begin with the channel
	left  int  // publications until the end; 0: no end
	// begun are maps whose entries were printed; ahead subscriptions to maps before that.
	begun map[string]bool
	ahead map[string]client.SubscribedEvent
}

func newPrinter(out *Output, channels []string, kind Kind, count int) *printer {
	return &printer{
		out: out, kind: kind, named: len(channels) > 1, left: count, begun: make(map[string]bool), ahead: make(map[string]client.SubscribedEvent),
	}
}

type line struct {
	Type    string            `json:"type"`
	Channel string            `json:"channel,omitempty"`
	Data    json.RawMessage   `json:"data,omitempty"`
	Offset  uint64            `json:"offset,omitempty"`
	Epoch   string            `json:"epoch,omitempty"`
	Key     string            `json:"key,omitempty"`
	Removed bool              `json:"removed,omitempty"`
	Score   int64             `json:"score,omitempty"`
	Version uint64            `json:"version,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
	Info    *info             `json:"info,omitempty"`
	// Recovered tells whether all publications since the position before were there.
	Recovering bool   `json:"recovering,omitempty"`
	Recovered  bool   `json:"recovered,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

type info struct {
	User     string          `json:"user"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

func infoOf(i *client.ClientInfo) *info {
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

// event prints JSON as data; as text publications are data, and the rest messages.
func (p *printer) event(e client.Event) error {
	switch e := e.(type) {
	case client.ConnectedEvent:
		return p.tell(line{Type: "connected"})
	case client.ConnectingEvent:
		if e.Reason == client.ConnectCalled {
			return nil
		}
		return p.lost(lost(e.Reason))
	case client.ErrorEvent:
		if e.Channel == "" {
			return p.lost(cause(e))
		}
		p.out.message("%s: %v; trying again", e.Channel, e.Err)
	case client.SubscribedEvent:
		if p.kind.isMap() && !e.Recovered {
			p.ahead[e.Channel] = e
			return nil
		}
		return p.subscribed(e)
	case client.SubscribingEvent:
		if e.Reason.Code >= minUnsubscribe {
			return p.unsubscribed(e.Channel, e.Reason)
		}
	case client.UnsubscribedEvent:
		return p.unsubscribed(e.Channel, e.Reason)
	case client.GapEvent:
		if e.Unread { // SubscribedEvent tells of the others
			return p.unread(e)
		}
	case client.StateEvent:
		return p.state(e)
	case client.PublicationEvent:
		return p.publication("publication", &e.Publication)
	case client.JoinEvent:
		p.out.message("%s: user %q joined (client %s)", e.Channel, e.Info.User, e.Info.Client)
		return p.tell(line{Type: "join", Channel: e.Channel, Info: infoOf(&e.Info)})
	case client.LeaveEvent:
		p.out.message("%s: user %q left (client %s)", e.Channel, e.Info.User, e.Info.Client)
		return p.tell(line{Type: "leave", Channel: e.Channel, Info: infoOf(&e.Info)})
	case client.MessageEvent:
		data := compact(e.Data)
		p.out.message("message: %s", data)
		return p.tell(line{Type: "message", Data: data})
	}
	return nil
}

func (p *printer) tell(l line) error {
	if !p.out.JSON {
		return nil
	}
	return p.out.object(l)
}

func (p *printer) lost(err error) error {
	p.out.message("disconnected: %v; connecting again", err)
	return p.tell(line{Type: "disconnected", Reason: err.Error()})
}

func (p *printer) unsubscribed(ch string, r client.Reason) error {
	err := ending(ch, r)
	p.out.message("%v", err)
	return p.tell(line{Type: "unsubscribed", Channel: ch, Reason: err.Error()})
}

func (p *printer) unread(e client.GapEvent) error {
	p.out.message("%s: publications are missing up to offset %d, because nobody has taken what was printed", e.Channel, e.To.Offset)
	return p.tell(line{Type: "gap", Channel: e.Channel, Offset: e.To.Offset, Epoch: e.To.Epoch})
}

func (p *printer) state(e client.StateEvent) error {
	if p.begun[e.Channel] {
		p.out.message("%s: what has changed is not known any more: its entries follow anew", e.Channel)
		if err := p.tell(line{Type: "reset", Channel: e.Channel}); err != nil {
			return err
		}
	}
	p.begun[e.Channel] = true
	for i := range e.Entries {
		if err := p.publication("entry", &e.Entries[i]); err != nil {
			return err
		}
	}
	return p.subscribed(p.ahead[e.Channel])
}

// publication returns errDone after the last one.
func (p *printer) publication(kind string, pub *client.Publication) error {
	var err error
	if p.out.JSON {
		l := line{
			Type: kind, Channel: pub.Channel, Offset: pub.Offset, Key: pub.Key, Removed: pub.Removed, Score: pub.Score, Version: pub.Version,
			Tags: pub.Tags, Info: infoOf(pub.Info),
		}
		if len(pub.Data) > 0 {
			l.Data = compact(pub.Data)
		}
		err = p.out.object(l)
	} else {
		err = p.out.line(p.text(pub))
	}
	if p.left--; err == nil && p.left == 0 {
		return errDone
	}
	return err
}

// text is fields with tabs between: the channel if there are several, the key where there are keys, the data. A removed
// key has no data. An entry of presence has the description of the client.
func (p *printer) text(pub *client.Publication) string {
	var fields []string
	if p.named {
		fields = append(fields, pub.Channel)
	}
	if p.kind.Type != Stream {
		fields = append(fields, oneField(pub.Key))
	}
	switch {
	case pub.Removed:
	case len(pub.Data) > 0:
		fields = append(fields, string(compact(pub.Data)))
	case pub.Info == nil:
		fields = append(fields, "null")
	default:
		who, _ := json.Marshal(infoOf(pub.Info)) // it has parts of JSON alone
		fields = append(fields, string(who))
	}
	return strings.Join(fields, "\t")
}

// oneField makes a JSON string of a key with control characters.
func oneField(key string) string {
	if strings.IndexFunc(key, unicode.IsControl) < 0 {
		return key
	}
	quoted, _ := json.Marshal(key) // a string always has a form
	return string(quoted)
}

func (p *printer) subscribed(e client.SubscribedEvent) error {
	switch {
	case e.WasRecovering && e.Recovered:
		p.out.message("subscribed to %s again: nothing is missing", e.Channel)
	case e.WasRecovering:
		p.out.message("subscribed to %s again: publications are missing, because the history does not reach back to the last one", e.Channel)
	case p.kind.Type == SharedPoll:
		p.out.message("subscribed to %s, epoch %s", e.Channel, e.Position.Epoch)
	case e.Recoverable || e.Positioned:
		p.out.message("subscribed to %s at offset %d, epoch %s", e.Channel, e.Position.Offset, e.Position.Epoch)
	case p.kind.Type != Stream:
		p.out.message("subscribed to %s, which keeps no changes: after a lost connection its entries come anew", e.Channel)
	default:
		p.out.message("subscribed to %s, which keeps no history: what comes while the connection is lost is missed", e.Channel)
	}
	return p.tell(line{
		Type: "subscribed", Channel: e.Channel, Offset: e.Position.Offset, Epoch: e.Position.Epoch, Recovering: e.WasRecovering, Recovered: e.Recovered,
	})
}
