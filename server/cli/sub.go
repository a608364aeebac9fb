package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

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
	Kind
	// Once ends the command when the state of all maps is printed.
	Once bool
}

// Kind says what channels are.
type Kind struct {
	Type client.Type
	// Keys of shared polls, which are tracked.
	Keys []string
	// Delta asks the server for differences. What is printed is the same.
	Delta bool
}

// check tells whether what is asked for fits together.
func (k *Kind) check() error {
	if polls := k.Type == client.SharedPoll; polls != (len(k.Keys) > 0) {
		return Usage("key: keys are tracked in channels of type poll, which need some")
	}
	return nil
}

// errDone ends a client that has printed enough.
var errDone = errors.New("done")

// Run prints until ctx ends, Count is reached, or the server refuses the client.
func (s *Subscribe) Run(ctx context.Context, out *Output) error {
	if err := s.check(); err != nil {
		return err
	}
	if isMap := s.Type != client.Stream && s.Type != client.SharedPoll; s.Once && !isMap {
		return Usage("once: only maps have a state that comes to an end")
	}
	if s.Since != nil && s.Type != client.Stream {
		return Usage("since: only streams begin after a position")
	}
	cfg, err := s.client()
	if err != nil {
		return err
	}
	p := newPrinter(out, s.Channels, s.Kind, s.Count)
	cfg.JoinLeave, cfg.Delta, cfg.Handle = s.JoinLeave, s.Delta, p.event
	if s.Once {
		left := len(s.Channels)
		cfg.Handle = func(e client.Event) error {
			if err := p.event(e); err != nil || e.Kind != client.Subscribed {
				return err
			}
			if left--; left == 0 {
				return errDone
			}
			return nil
		}
	}
	if cfg.Channels, err = channels(s.Channels, s.Kind, s.Since); err != nil {
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

func channels(names []string, kind Kind, since *protocol.StreamPosition) ([]client.Channel, error) {
	if since != nil && len(names) > 1 {
		return nil, Usage("since: a position is that of one channel")
	}
	seen, out := map[string]bool{}, make([]client.Channel, 0, len(names))
	for _, name := range names {
		if seen[name] {
			return nil, Usage("channel %q is given twice", name)
		}
		seen[name] = true
		out = append(out, client.Channel{Name: name, Since: since, Type: kind.Type, Keys: kind.Keys})
	}
	return out, nil
}

// printer prints the events of a client.
type printer struct {
	out   *Output
	named bool // lines begin with the channel
	keyed bool // and then, or at first, with the key
	left  int  // publications until the end; 0: no end
}

func newPrinter(out *Output, channels []string, kind Kind, count int) *printer {
	return &printer{out: out, named: len(channels) > 1, keyed: kind.Type != client.Stream, left: count}
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
	Score   int64             `json:"score,omitempty"`
	Version uint64            `json:"version,omitempty"`
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
	case client.Published, client.Entry:
		return p.publication(e.Kind, e.Channel, e.Publication)
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

// publication prints a publication or an entry, and returns errDone after the last.
func (p *printer) publication(kind client.EventKind, ch string, pub *protocol.Publication) error {
	var err error
	if p.out.JSON {
		l := line{
			Type: kind, Channel: ch, Offset: pub.Offset, Key: pub.Key, Removed: pub.Removed, Score: pub.Score, Version: pub.Version,
			Tags: pub.Tags, Info: infoOf(pub.Info),
		}
		if len(pub.Data) > 0 {
			l.Data = compact(pub.Data)
		}
		err = p.out.object(l)
	} else {
		err = p.out.line(p.text(ch, pub))
	}
	if p.left--; err == nil && p.left == 0 {
		return errDone
	}
	return err
}

// text is a publication as fields with tabs between them: the channel if there are several, the key where there are keys,
// the data. A key that was removed has no data. Entries of presence have, for data, who is present.
func (p *printer) text(ch string, pub *protocol.Publication) string {
	var fields []string
	if p.named {
		fields = append(fields, ch)
	}
	if p.keyed {
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

// oneField is a key in one field of one line: one with control characters is a JSON string.
func oneField(key string) string {
	if strings.IndexFunc(key, unicode.IsControl) < 0 {
		return key
	}
	quoted, _ := json.Marshal(key) // a string always has a form
	return string(quoted)
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
	case client.Reset:
		p.out.say("%s: what has changed is not known any more: its entries follow anew", e.Channel)
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
	case r.Type == int32(client.SharedPoll):
		p.out.say("subscribed to %s, epoch %s", e.Channel, r.Epoch)
	case r.Recoverable || r.Positioned:
		p.out.say("subscribed to %s at offset %d, epoch %s", e.Channel, r.Offset, r.Epoch)
	case r.Type != int32(client.Stream):
		p.out.say("subscribed to %s, which keeps no changes: after a lost connection its entries come anew", e.Channel)
	default:
		p.out.say("subscribed to %s, which keeps no history: what comes while the connection is lost is missed", e.Channel)
	}
}
