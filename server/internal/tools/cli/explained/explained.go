// Package explained asks a running server why a user does not get messages, and writes the answer for people.
package explained

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
)

// Ask returns the result and its JSON.
func Ask(ctx context.Context, caller *apicall.Caller, r *api.ExplainRequest) (*api.ExplainResult, []byte, error) {
	var text json.RawMessage
	err := caller.Call(ctx, "explain", map[string]any{"user": r.User, "channel": r.Channel, "limit": r.Limit}, &text)
	if err != nil {
		return nil, nil, err
	}
	result := new(api.ExplainResult)
	if err := result.UnmarshalJSON(text); err != nil {
		return nil, nil, fmt.Errorf("explain: the result cannot be read: %w", err)
	}
	return result, text, nil
}

// Write replaces characters that control a terminal: clients can say anything.
func Write(w io.Writer, r *api.ExplainResult, now time.Time) error {
	p := &printer{now: now}
	for _, f := range r.Findings {
		p.line("%-7s  %s", strings.ToUpper(f.Level), f.Text)
		if f.Key != "" {
			p.line("         setting: %s", f.Key)
		}
		if f.Client != "" {
			p.line("         client:  %s", f.Client)
		}
	}
	p.connections(r)
	p.subscribe(r)
	p.events(r.Events)
	if r.Incomplete != "" {
		p.line("\nnot all nodes have answered: %s", r.Incomplete)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

type printer struct {
	b   strings.Builder
	now time.Time
}

func (p *printer) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.b.WriteString(strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text))
	p.b.WriteByte('\n')
}

func (p *printer) connections(r *api.ExplainResult) {
	p.line("\nconnections: %d", len(r.Connections))
	for _, id := range slices.Sorted(maps.Keys(r.Connections)) {
		c := r.Connections[id]
		latency := "unknown"
		if c.PingPongLatencyMs >= 0 {
			latency = fmt.Sprintf("%d ms", c.PingPongLatencyMs)
		}
		p.line("  %s  %s", id, strings.Join(strings.Fields(c.Transport+" "+c.Protocol+" "+c.AppName+" "+c.AppVersion), " "))
		p.line("    for %v, latency %s, %d bytes waiting, %d commands in progress, from %s, on node %s",
			p.now.Sub(time.UnixMilli(c.ConnectedAtMs)).Round(time.Second), latency, c.Queue, c.Commands, cmp.Or(c.Addr, "an unknown address"), c.Node)
		if c.State == nil {
			continue
		}
		for _, ch := range slices.Sorted(maps.Keys(c.State.Channels)) {
			s, more := c.State.Channels[ch], ""
			if s.ServerSide {
				more += ", server-side"
			}
			if s.Epoch != "" {
				more += fmt.Sprintf(", at offset %d of epoch %s", s.Offset, s.Epoch)
			}
			p.line("    %s (source %d%s)", ch, s.Source, more)
		}
	}
	if r.More {
		p.line("  and more")
	}
}

func (p *printer) subscribe(r *api.ExplainResult) {
	s := r.Subscribe
	if s == nil {
		return
	}
	p.line("\nsubscribing is %s", map[string]string{api.Allowed: "allowed", api.Refused: "refused", api.Backend: "for the backend to decide"}[s.Decision])
	for _, c := range s.Checks {
		setting := ""
		if c.Key != "" {
			setting = "  [" + c.Key
			if c.Value != "" {
				setting += " = " + c.Value
			}
			setting += "]"
		}
		p.line("  %-3s  %s%s", map[bool]string{true: "yes", false: "no"}[c.Holds], c.Text, setting)
	}
	if s.Reason != "" {
		p.line("  so:  %s", s.Reason)
	}
	if s.Token {
		p.line("  with a subscription token for the channel a client may subscribe")
	}
	for _, option := range slices.Sorted(maps.Keys(s.Options)) {
		p.line("  %s: %s", option, s.Options[option])
	}
	if r.Top != nil {
		p.line("  top of the stream: offset %d of epoch %s", r.Top.Offset, r.Top.Epoch)
	}
}

func (p *printer) events(list []api.FlightEvent) {
	p.line("\nevents: %d", len(list))
	for _, e := range list {
		var more []string
		for _, text := range []string{e.Channel, e.What, e.Reason} {
			if text != "" {
				more = append(more, text)
			}
		}
		line := fmt.Sprintf("  %s  %-13s %s", time.UnixMilli(e.TimeMs).UTC().Format("2006-01-02T15:04:05.000Z"), e.Kind, strings.Join(more, ": "))
		if e.Code != 0 {
			line += fmt.Sprintf(" (%d)", e.Code)
		}
		if e.Key != "" {
			line += " [" + e.Key + "]"
		}
		if e.Client != "" {
			line += "  " + e.Client
		}
		p.line("%s", strings.TrimRight(line, " "))
	}
}
