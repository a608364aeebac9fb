package conformance

import (
	"slices"
	"sync/atomic"

	"github.com/gobwas/ws"
)

// message is one from the server to a client, which a fault may change.
type message = map[string]any

// fault is what a bad server does. Its state belongs to one connection.
type fault struct {
	// messages changes what a frame has; nil leaves it.
	messages func(link *link, in []message) []message
	// frame changes a frame as it goes over the wire.
	frame func(frame []byte) []byte
	// end changes a close.
	end func(code ws.StatusCode, reason string) (ws.StatusCode, string)
	// command changes what a client sends.
	command func(link *link, in []message) []message
}

// link is a connection of the bad server.
type link struct {
	held    []message
	count   map[string]int
	channel atomic.Value // that the client has subscribed to last
}

// at finds a value in a message.
func at(m message, path ...string) any {
	var v any = m
	for _, key := range path {
		inner, ok := v.(message)
		if !ok {
			return nil
		}
		v = inner[key]
	}
	return v
}

func isPing(m message) bool { return len(m) == 1 && m[lineKey] == "{}" }

// inner finds a message in a message; nil if there is none.
func inner(m message, path ...string) message {
	found, _ := at(m, path...).(message)
	return found
}

// each changes each message that has something.
func each(change func(l *link, m message)) fault {
	return fault{messages: func(l *link, in []message) []message {
		for _, m := range in {
			change(l, m)
		}
		return in
	}}
}

// on changes what is at a path.
func on(change func(m message), path ...string) fault {
	return each(func(_ *link, m message) {
		if found := inner(m, path...); found != nil {
			change(found)
		}
	})
}

// add adds to a number.
func add(m message, key string, n float64) {
	v, _ := m[key].(float64)
	m[key] = v + n
}

// pubs returns the publications of a result.
func pubs(m message, key string) []any {
	list, _ := m[key].([]any)
	return list
}

// every does something every nth time.
func (l *link) every(what string, n int) bool {
	l.count[what]++
	return l.count[what]%n == 0
}

// closing is a server that closes with another code instead of 3501 and 1009.
func closing(code ws.StatusCode, reason string) fault {
	return fault{end: func(c ws.StatusCode, r string) (ws.StatusCode, string) {
		if c == 3501 || c == 1009 {
			return code, reason
		}
		return c, r
	}}
}

// drop is a server that loses messages.
func drop(lost func(l *link, m message) bool) fault {
	return fault{messages: func(l *link, in []message) []message {
		return slices.DeleteFunc(in, func(m message) bool { return lost(l, m) })
	}}
}

// gaps is a server that loses every nth publication, live or recovered: how many of them are live depends on the pace.
func gaps(n int) fault {
	return drop(func(l *link, m message) bool {
		if found := inner(m, "subscribe"); found != nil && len(pubs(found, "publications")) > 0 {
			found["publications"] = slices.DeleteFunc(pubs(found, "publications"), func(any) bool { return l.every("pub", n) })
		}
		return inner(m, "push", "pub") != nil && l.every("pub", n)
	})
}

// swap is a server that delivers every nth publication behind the next message.
func swap(n int) fault {
	return fault{messages: func(l *link, in []message) (out []message) {
		for _, m := range in {
			if inner(m, "push", "pub") != nil {
				if l.every("pub", n) && len(l.held) == 0 {
					l.held = append(l.held, m)
					continue
				}
				out = append(append(out, m), l.held...)
				l.held = nil
				continue
			}
			out = append(out, m)
		}
		return out
	}}
}

// early is a server that pushes a publication before the reply to the subscribe that covers it.
func early() fault {
	return fault{messages: func(l *link, in []message) (out []message) {
		for _, m := range in {
			if s := inner(m, "subscribe"); s != nil {
				out = append(out, message{"push": message{"channel": l.channel.Load(), "pub": message{"data": 1.0, "offset": 1.0}}})
			}
			out = append(out, m)
		}
		return out
	}, command: func(l *link, in []message) []message {
		for _, m := range in {
			if s := inner(m, "subscribe"); s != nil {
				l.channel.Store(s["channel"])
			}
		}
		return in
	}}
}

// changeCommands is a server that reads commands of a kind in another way.
func changeCommands(kind string, change func(m message)) fault {
	return fault{command: func(_ *link, in []message) []message {
		for _, m := range in {
			if found := inner(m, kind); found != nil {
				change(found)
			}
		}
		return in
	}}
}

// dropCommands is a server that does not notice a frame.
func dropCommands(text string) fault {
	return fault{command: func(_ *link, in []message) []message {
		if len(in) == 1 && in[0][rawFrame] == text {
			return nil
		}
		return in
	}}
}

// dropCommandsBut is a server that answers a command, and does not do it.
func dropCommandsBut(kind string) fault {
	return fault{command: func(_ *link, in []message) []message {
		for _, m := range in {
			if found := inner(m, kind); found != nil {
				found["channel"] = "elsewhere"
			}
		}
		return in
	}}
}
