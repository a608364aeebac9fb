// Package onloop leads transports to the loops of a node, which are no business of the
// node's users.
package onloop

import (
	"context"

	"github.com/gyrohq/gyro/transport"
)

// Acceptor is a transport.Acceptor whose loops can watch sockets.
type Acceptor interface {
	transport.Acceptor
	// NextLoop is the loop for the next connection, or nil if loops watch no sockets.
	// Any goroutine may call it.
	NextLoop() transport.Loop
	// AcceptOn is Accept, called on l. The peer belongs to l: whoever drives it calls
	// it there and nowhere else, and its owner calls c there.
	AcceptOn(l transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error)
}

// Source is embedded by what transports get in place of an Acceptor: Of finds the Acceptor
// in it, by a method that is promoted and that no other package can call.
type Source struct{ acceptor Acceptor }

// Lead returns a Source of a.
func Lead(a Acceptor) Source { return Source{a} }

func (s *Source) loops() Acceptor { return s.acceptor }

// Of returns the Acceptor that a is, or that is the Source of a; nil if there is none.
func Of(a transport.Acceptor) Acceptor {
	switch a := a.(type) {
	case Acceptor:
		return a
	case interface{ loops() Acceptor }:
		return a.loops()
	}
	return nil
}
