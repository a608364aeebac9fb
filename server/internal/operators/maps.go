package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// A map is watched by a connection that subscribes as clients do (docs/maps.md#the-steps-of-a-subscription). The
// commands are made here, so that an operator needs no more than one request.

const statePage = 1000

// The phases of subscribe commands.
const (
	phaseStream = 1
	phaseState  = 2
)

type command struct {
	ID        uint32     `json:"id"`
	Connect   *struct{}  `json:"connect,omitempty"`
	Subscribe *subscribe `json:"subscribe,omitempty"`
}

type subscribe struct {
	Channel string `json:"channel"`
	Type    int32  `json:"type"`
	Phase   int32  `json:"phase,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Offset  uint64 `json:"offset,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
}

func firstCommands(name string, ch channels.Channel) string {
	connect, _ := json.Marshal(command{ID: 1, Connect: &struct{}{}})
	first, _ := json.Marshal(command{ID: 2, Subscribe: &subscribe{Channel: name, Type: int32(ch.Type), Phase: phaseState, Limit: statePage}})
	return string(connect) + "\n" + string(first)
}

// entries is the state of a map, before the changes.
type entries struct {
	Entries []json.RawMessage `json:"entries"`
	Offset  uint64            `json:"offset"`
	Epoch   string            `json:"epoch,omitempty"`
	More    bool              `json:"more,omitempty"`
}

func (d *console) tailMap(streams *httpstream.Handler, w http.ResponseWriter, r *http.Request, name string, ch channels.Channel) {
	ctx, cancel := context.WithCancel(r.Context())
	commands := make(chan []byte, 4)
	t := &mapSubscriber{noHijack: noHijack{w}, channel: name, kind: int32(ch.Type), ephemeral: ch.Map.Mode == "ephemeral", commands: commands, id: 2}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for text := range commands {
			if err := d.Node.Emulate(ctx, d.Node.UID(), t.session, text); err != nil {
				return // the connection has ended
			}
		}
	}()
	streams.ServeHTTP(t, r)
	cancel()
	close(commands)
	<-done
}

// mapSubscriber answers the replies of the node as a client does, and turns them into lines like the lines of other
// channels.
type mapSubscriber struct {
	noHijack
	channel   string
	kind      int32
	ephemeral bool
	commands  chan<- []byte // it is never full, as each is sent after an answer or a ping
	session   string        // set before the first command
	rest      []byte        // of a line
	id        uint32        // of the newest command
}

type reply struct {
	Push    json.RawMessage `json:"push"`
	Error   json.RawMessage `json:"error"`
	Connect *struct {
		Session string `json:"session"`
	} `json:"connect"`
	Subscribe *subscribed `json:"subscribe"`
}

type subscribed struct {
	Phase        int32             `json:"phase"`
	Cursor       string            `json:"cursor"`
	Offset       uint64            `json:"offset"`
	Epoch        string            `json:"epoch"`
	State        []json.RawMessage `json:"state"`
	Publications []json.RawMessage `json:"publications"`
}

// Write implements io.Writer.
func (t *mapSubscriber) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		line, rest, whole := bytes.Cut(t.rest, []byte{'\n'})
		if !whole {
			return len(p), nil
		}
		if err := t.take(line); err != nil {
			return 0, err
		}
		t.rest = rest
	}
}

var errRefused = errors.New("the map cannot be watched")

func (t *mapSubscriber) take(line []byte) error {
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	switch {
	case r.Push != nil:
		return t.put(r.Push)
	case r.Error != nil:
		return errors.Join(errRefused, t.put(map[string]any{"error": r.Error}))
	case r.Connect != nil:
		t.session = r.Connect.Session
		return nil
	case r.Subscribe != nil:
		return t.advance(r.Subscribe)
	}
	// A ping, which a client answers. The empty line is for proxies that end idle connections.
	if _, err := t.noHijack.Write([]byte{'\n'}); err != nil {
		return err
	}
	return t.command([]byte("{}"))
}

// advance writes the contents of an answer, and goes on until the subscription is live.
func (t *mapSubscriber) advance(s *subscribed) error {
	if t.id == 2 {
		state := entries{Entries: s.State, Offset: s.Offset, Epoch: s.Epoch, More: s.Cursor != ""}
		if state.Entries == nil {
			state.Entries = []json.RawMessage{}
		}
		if err := t.put(map[string]any{"channel": t.channel, "state": state}); err != nil {
			return err
		}
	}
	for _, p := range s.Publications {
		if err := t.put(map[string]any{"channel": t.channel, "pub": p}); err != nil {
			return err
		}
	}
	if s.Phase == 0 {
		return t.put(map[string]any{"channel": t.channel, "live": map[string]any{"offset": s.Offset, "epoch": s.Epoch}})
	}
	t.id++
	next := subscribe{Channel: t.channel, Type: t.kind, Limit: statePage}
	if !t.ephemeral { // others go live at once
		next.Phase, next.Offset, next.Epoch = phaseStream, s.Offset, s.Epoch
	}
	text, err := json.Marshal(command{ID: t.id, Subscribe: &next})
	if err != nil {
		return err
	}
	return t.command(text)
}

func (t *mapSubscriber) command(text []byte) error {
	data, err := json.Marshal(string(text)) // as emulation requests have it
	if err != nil {
		return err
	}
	select {
	case t.commands <- data:
		return nil
	default:
		return fmt.Errorf("%w: the node takes no commands", errRefused)
	}
}

func (t *mapSubscriber) put(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = t.noHijack.Write(append(text, '\n'))
	return err
}
