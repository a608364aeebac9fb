// Package nodeaccess leads transports to the loops of a node, which the public API of the node
// does not show.
package nodeaccess

import (
	"context"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
)

// Acceptor is a transport.Acceptor whose loops can watch sockets.
type Acceptor interface {
	transport.Acceptor
	// NextLoop returns the loop for the next connection, or nil if loops watch no sockets.
	// Any goroutine may call it.
	NextLoop() transport.Loop
	// AcceptOn does what Accept does, and is called on l. The methods of the peer and of c
	// are called on l only.
	AcceptOn(l transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error)
}

// Node is the Acceptor of a node, which the registry of its clients implements.
type Node interface {
	Acceptor
	// EmulateOn is the Emulate of the node.
	EmulateOn(l transport.Loop, node, session string, data []byte) transport.Loop
	// ObserverTotals has what counts for the observer of the node; nil if there is none.
	ObserverTotals() *observe.Totals
	// Refused takes the report of a transport that it refused a request, with an HTTP status.
	Refused(f refusal.Refusal, status int, why error)
}

// Source hides an Acceptor in a public type that embeds the Source: only Of can find it.
type Source struct{ acceptor Acceptor }

// Lead returns a Source of a.
func Lead(a Acceptor) Source { return Source{a} }

func (s *Source) loops() Acceptor { return s.acceptor }

// Of returns a if it is an Acceptor, or the Acceptor of the Source that a embeds; nil if there
// is neither.
func Of(a transport.Acceptor) Acceptor {
	switch a := a.(type) {
	case Acceptor:
		return a
	case interface{ loops() Acceptor }:
		return a.loops()
	}
	return nil
}

// Emulate passes commands to the client with a session ID, as a transport.Emulator does. It is called on l. It returns
// l if that is done, or if there is no such session. If another loop must be asked, it returns that loop; if the
// Emulator must be called, nil.
type Emulate func(l transport.Loop, node, session string, data []byte) transport.Loop

// EmulateOf returns the Emulate of a node; nil if e has none.
func EmulateOf(e transport.Emulator) Emulate {
	if a, ok := e.(transport.Acceptor); ok {
		if node, ok := Of(a).(Node); ok {
			return node.EmulateOn
		}
	}
	return nil
}

// Totals returns the counters for the observer of the node that a leads to; nil if there are none.
func Totals(a transport.Acceptor) *observe.Totals {
	if node, ok := Of(a).(Node); ok {
		return node.ObserverTotals()
	}
	return nil
}

// Refused reports that a transport refused a request, with an HTTP status, to the node that a
// leads to, if it is one. Any goroutine may call it.
func Refused(a transport.Acceptor, f refusal.Refusal, status int, why error) {
	if node, ok := Of(a).(Node); ok {
		node.Refused(f, status, why)
	}
}
