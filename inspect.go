package gyro

import (
	"context"
	"errors"
	"iter"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/observe"
)

// Inspector shows operators the connections of the cluster, and how this node does. Any goroutine may call the methods.
// Only the node implements Inspector; tests of programs may, too.
type Inspector interface {
	// Connections returns the connections in the cluster that f selects. It is a Survey with the same limits; if nodes
	// are missing, it returns the connections of the others with ErrNoAnswer.
	Connections(ctx context.Context, f inspect.Filter) (inspect.Connections, error)
	// Snapshot iterates over all connections in the cluster that f selects, without a limit: page by page, from 8 nodes
	// at a time, so that they are never in memory at once. The last element has the error, if there is one: ErrNoAnswer
	// if nodes have not answered to the end, after the pages of the others. A node has 16 snapshots under way at most.
	Snapshot(ctx context.Context, f inspect.Filter) iter.Seq2[inspect.Page, error]
	// Flight is like Connections for recent events of clients and channels: see Config.FlightRecorder.
	Flight(ctx context.Context, q inspect.Query) (inspect.Log, error)
	// Tap watches a user or a channel on all nodes until ctx ends. It has an element four times a second, also without
	// events: the first when all nodes that answer watch. The last element has the error. observe.Tap has the bounds.
	Tap(ctx context.Context, t observe.Tap) iter.Seq2[[]observe.Tapped, error]
	// Users iterates over the users of this node's connections, some hundreds at a time, and a user perhaps more than
	// once; anonymous connections are left out. The last element has the error of ctx if ctx ends first.
	Users(ctx context.Context) iter.Seq2[[]string, error]
	// NumSubscribers is the number of connections of this node that are subscribed to a channel, or about to be. It waits
	// for a turn of each of the node's loops, which takes microseconds, or milliseconds on a busy node; it returns the
	// error of ctx if ctx ends first. Cluster.Channels asks all nodes.
	NumSubscribers(ctx context.Context, ch string) (int, error)
	// Load returns the messages that wait for slow clients, and how far the node's clock is off. It asks the loops, and
	// returns the error of ctx if ctx ends first.
	Load(ctx context.Context) (observe.Load, error)
	// Panics is the number of panics in handlers, engines and the node itself that the node has contained. Each is logged
	// as an error, with the client and the stack. When a handler panics, its client gets error 100; after any other panic
	// the client is disconnected with 3004.
	Panics() uint64
}

// Inspect shows connections of the whole cluster, and how this node does.
func (n *Node) Inspect() Inspector { return inspection{n} }

// inspection implements Inspector.
type inspection struct{ node *Node }

func (i inspection) Connections(ctx context.Context, f inspect.Filter) (inspect.Connections, error) {
	i.node.countSurvey()
	return i.node.member.Inspector.Connections(ctx, f)
}

func (i inspection) Snapshot(ctx context.Context, f inspect.Filter) iter.Seq2[inspect.Page, error] {
	return func(yield func(inspect.Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages, result := make(chan inspect.Page), make(chan error, 1)
		// Goroutines fetch the pages; the loop body runs on the goroutine of the caller.
		go func() {
			defer close(pages)
			result <- i.node.member.Inspector.Snapshot(ctx, f, func(p inspect.Page) error {
				select {
				case pages <- p:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
		defer func() {
			cancel()
			for range pages { // ends when nothing fetches any more
			}
		}()
		for p := range pages {
			if !yield(p, nil) {
				return
			}
		}
		if err := <-result; err != nil {
			yield(inspect.Page{}, err)
		}
	}
}

func (i inspection) Flight(ctx context.Context, q inspect.Query) (inspect.Log, error) {
	i.node.countSurvey()
	return i.node.member.Inspector.Flight(ctx, q)
}

func (i inspection) Tap(ctx context.Context, t observe.Tap) iter.Seq2[[]observe.Tapped, error] {
	return sequence(func(see func([]observe.Tapped) error) error {
		return i.node.member.Watch(ctx, t, i.node.cluster, see)
	})
}

func (i inspection) Users(ctx context.Context) iter.Seq2[[]string, error] {
	return sequence(func(see func([]string) error) error { return i.node.member.Inspector.Users(ctx, see) })
}

func (i inspection) NumSubscribers(ctx context.Context, ch string) (int, error) {
	return i.node.clients.Subscribers(ctx, ch)
}

func (i inspection) Load(ctx context.Context) (observe.Load, error) { return i.node.clients.Load(ctx) }

func (i inspection) Panics() uint64 { return i.node.clients.Panics() }

// errBreak ends a walk because the loop over it has ended.
var errBreak = errors.New("gyro: the loop has ended")

// sequence returns an iterator over the values that walk calls see with, on the goroutine of its caller. The last
// element has the error of walk.
func sequence[T any](walk func(see func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := walk(func(v T) error {
			if !yield(v, nil) {
				return errBreak
			}
			return nil
		})
		if err != nil && !errors.Is(err, errBreak) {
			var none T
			yield(none, err)
		}
	}
}
