// Package explain finds out why a user does not get messages (docs/flight-recorder.md), from the answers of the nodes.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
)

// Case has the answers of the nodes about a user.
type Case struct {
	User string
	// Channel is empty for any.
	Channel     string
	Connections []inspect.Connection
	More        bool
	// Events of the user, of nodes, and new epochs of Channel. Refused are refusals of connections with an unknown user.
	Events, Refused []inspect.Event
	// Incomplete names nodes without an answer.
	Incomplete string
	// Denied is why the user may not subscribe to the channel; nil if it may, or if a token or the backend decides.
	Denied *Denied
	// Top of the channel's stream; nil if unknown.
	Top *channel.StreamPosition
}

// Denied is a refusal, with the key that would allow it.
type Denied struct{ Reason, Key string }

// Level of a finding.
type Level string

// A Problem keeps messages from the user, a Notice may do so, and OK is the only finding if there are none.
const (
	Problem Level = "problem"
	Notice  Level = "notice"
	OK      Level = "ok"
)

// Finding is a sentence without a period.
type Finding struct {
	Level Level
	Text  string
	// Key would change it; may be empty.
	Key string
	// Client is the ID of the connection; may be empty.
	Client string
}

// Find returns the findings, problems first.
func Find(c *Case) []Finding {
	f := finder{Case: c}
	if c.Incomplete != "" {
		f.tell(Notice, "not all nodes have answered, so something may be missing here: "+c.Incomplete, "", "")
	}
	if len(c.Connections) == 0 {
		f.absent()
	}
	missing := false
	for i := range c.Connections {
		missing = f.connection(&c.Connections[i]) || missing
	}
	if c.Denied != nil && (missing || len(c.Connections) == 0) {
		f.tell(Problem, "the user may not subscribe to the channel: "+c.Denied.Reason, c.Denied.Key, "")
	}
	f.nodes()
	if c.More {
		f.tell(Notice, "the user has more connections than were looked at", "", "")
	}
	if len(f.found) == 0 {
		f.tell(OK, f.fine(), "", "")
	}
	slices.SortStableFunc(f.found, func(a, b Finding) int { return cmp.Compare(b.Level, a.Level) }) // problem, notice
	return f.found
}

type finder struct {
	*Case
	found []Finding
}

func (f *finder) tell(l Level, text, key, client string) {
	f.found = append(f.found, Finding{l, text, key, client})
}

func (f *finder) fine() string {
	if f.Channel == "" {
		return fmt.Sprintf("nothing is wrong with %s of the user", count(len(f.Connections), "connection"))
	}
	return fmt.Sprintf("nothing is wrong: %s of the user, subscribed to the channel", count(len(f.Connections), "connection"))
}

func (f *finder) absent() {
	why := ""
	for i := len(f.Events) - 1; i >= 0 && why == ""; i-- {
		switch e := &f.Events[i]; e.Kind {
		case inspect.Disconnected:
			why = fmt.Sprintf(": the last connection ended at %s with %d (%s)", at(e), e.Code, e.Text)
		case inspect.Refused:
			f.tell(Problem, fmt.Sprintf("at %s%s: %s: %s", at(e), in(e.Channel), e.What, e.Text), e.Key, e.Client)
		}
	}
	f.tell(Problem, "the user is not connected"+cmp.Or(why, ", and the nodes remember no connection of it"), "", "")
	f.strangers()
}

// strangers tells of the most frequent refusals of clients with an unknown user: one of them may be the user.
func (f *finder) strangers() {
	const maxRefusals = 3
	type reason struct{ what, text, key string }
	counts := make(map[reason]int)
	var order []reason
	for _, e := range f.Refused {
		r := reason{e.What, e.Text, e.Key}
		if counts[r]++; counts[r] == 1 {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b reason) int { return counts[b] - counts[a] })
	for _, r := range order[:min(len(order), maxRefusals)] {
		f.tell(Notice, fmt.Sprintf("recently %s of clients whose user is not known: %s: %s", count(counts[r], "refusal"), r.what, r.text), r.key, "")
	}
}

// slow is the shortest time of a pong for a notice.
const slow = 3 * time.Second

// connection tells of a connection, and whether it lacks the subscription.
func (f *finder) connection(c *inspect.Connection) (missing bool) {
	if c.Queue > 0 {
		f.tell(Notice, fmt.Sprintf("%s for the client, which reads more slowly than messages come", count(c.Queue, "byte waits", "bytes wait")), "client.queue_max_size", c.Client)
	}
	if c.Latency >= slow {
		f.tell(Notice, fmt.Sprintf("the last pong of the client took %v", c.Latency.Round(time.Millisecond)), "", c.Client)
	}
	sub, subscribed := c.Channels[f.Channel]
	switch {
	case f.Channel == "" && len(c.Channels) == 0:
		f.tell(Problem, "the connection is subscribed to no channel", "", c.Client)
		f.last(c)
	case f.Channel == "":
	case !subscribed:
		f.last(c)
	case f.Top != nil && sub.Positioned && sub.Epoch != f.Top.Epoch:
		f.tell(Problem, "the stream has begun anew since the client subscribed: the epoch of the subscription is "+sub.Epoch+", and the stream's is "+f.Top.Epoch, "", c.Client)
	case f.Top != nil && sub.Positioned && sub.Offset < f.Top.Offset:
		f.tell(Problem, fmt.Sprintf("the client is at offset %d, and the top of the stream is %d", sub.Offset, f.Top.Offset), "", c.Client)
	}
	for _, e := range f.Events {
		if e.Client == c.Client && e.Kind == inspect.NotRecovered && (f.Channel == "" || e.Channel == f.Channel) {
			f.tell(Notice, fmt.Sprintf("at %s the client could not get what it had missed in %s: %s", at(&e), e.Channel, cmp.Or(e.Text, "the stream no longer had it")), "", c.Client)
		}
	}
	return f.Channel != "" && !subscribed
}

func (f *finder) last(c *inspect.Connection) {
	for i := len(f.Events) - 1; i >= 0; i-- {
		e := &f.Events[i]
		if e.Client != c.Client || e.Channel == "" || f.Channel != "" && e.Channel != f.Channel {
			continue
		}
		switch e.Kind {
		case inspect.Refused:
			f.tell(Problem, fmt.Sprintf("at %s in %s: %s: %s", at(e), e.Channel, e.What, e.Text), e.Key, c.Client)
			return
		case inspect.Unsubscribed:
			f.tell(Problem, fmt.Sprintf("the subscription to %s ended at %s with %d (%s)", e.Channel, at(e), e.Code, e.Text), "", c.Client)
			return
		}
	}
	if f.Channel != "" {
		f.tell(Problem, "the connection is not subscribed to the channel, and the node remembers no attempt of it", "", c.Client)
	}
}

func (f *finder) nodes() {
	failing := make(map[string]*inspect.Event)
	lost := 0
	var anew *inspect.Event // the latest
	epochs := make(map[string]bool)
	for i := range f.Events {
		switch e := &f.Events[i]; e.Kind {
		case inspect.Lost:
			lost++
		case inspect.Failing:
			failing[e.Node+" "+e.What] = e
		case inspect.Working:
			delete(failing, e.Node+" "+e.What)
		case inspect.NewEpoch:
			anew, epochs[e.Text] = e, true // each node records it
		case inspect.Slow:
			f.tell(Notice, fmt.Sprintf("at %s a client of the user was disconnected because %s for it", at(e), count(e.Count, "byte waited", "bytes waited")), "client.queue_max_size", e.Client)
		}
	}
	for _, e := range failing {
		f.tell(Problem, fmt.Sprintf("since %s %s of node %s does not work: %s", at(e), e.What, e.Node, e.Text), "", "")
	}
	if anew != nil {
		f.tell(Notice, fmt.Sprintf("the stream of %s has recently begun anew %s, as a %s showed at %s: %s; clients cannot recover older publications that they missed",
			anew.Channel, count(len(epochs), "time"), anew.What, at(anew), anew.Text), "", "")
	}
	if lost > 0 {
		f.tell(Notice, fmt.Sprintf("brokers may recently have lost messages %s", count(lost, "time")), "", "")
	}
}

func in(ch string) string {
	if ch == "" {
		return ""
	}
	return " in " + ch
}

func at(e *inspect.Event) string { return e.Time.UTC().Format("2006-01-02T15:04:05.000Z") }

func count(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprintf("%d %s", n, many[0])
	}
	return fmt.Sprintf("%d %ss", n, one)
}
