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
	// NextLoop returns the loop for the next connection; nil if loops watch no sockets. Any goroutine may call it.
	NextLoop() transport.Loop
	// AcceptOn is Accept on l, where the methods of the peer and of c are called, too.
	AcceptOn(l transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error)
}

// Node is implemented by the registry of a node's clients.
type Node interface {
	Acceptor
	EmulateOn(l transport.Loop, node, session string, data []byte) transport.Loop
	// ObserverTotals is nil without an observer.
	ObserverTotals() *observe.Totals
	Refused(f refusal.Refusal, status int, why error)
}

// Source hides an Acceptor in a public type that embeds the Source: only Of can find it.
type Source struct{ acceptor Acceptor }

// Lead returns a Source of a.
func Lead(a Acceptor) Source { return Source{a} }

func (s *Source) loops() Acceptor { return s.acceptor }

// Of returns a, or the Acceptor of the Source that a embeds; nil if there is neither.
func Of(a transport.Acceptor) Acceptor {
	switch a := a.(type) {
	case Acceptor:
		return a
	case interface{ loops() Acceptor }:
		return a.loops()
	}
	return nil
}

// Emulate is transport.Emulator on the loop l. It returns l if that is done, or if there is no such session; another
// loop that must be asked; or nil if the Emulator must be called.
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

// Totals returns the counters for the observer of a node; nil if there are none.
func Totals(a transport.Acceptor) *observe.Totals {
	if node, ok := Of(a).(Node); ok {
		return node.ObserverTotals()
	}
	return nil
}

// Refused tells the node of a, if there is one, that a transport refused a request with an HTTP status. Any goroutine
// may call it.
func Refused(a transport.Acceptor, f refusal.Refusal, status int, why error) {
	if node, ok := Of(a).(Node); ok {
		node.Refused(f, status, why)
	}
}
