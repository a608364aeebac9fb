package gyro

import (
	"context"
	"errors"
	"iter"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/tap"
	"github.com/gyrohq/gyro/observe"
)

// Inspector shows operators the connections of the cluster and the state of this node. Any goroutine may call it. Only
// the node implements Inspector; tests of programs may, too.
type Inspector interface {
	// Connections returns what f selects in the cluster. It is a Survey with the same limits; if nodes are missing, it
	// returns the connections of the others with ErrNoAnswer.
	Connections(ctx context.Context, f inspect.Filter) (inspect.Connections, error)
	// Snapshot iterates over all connections in the cluster that f selects, without a limit: page by page, from 8 nodes
	// at a time, so that they are never in memory at once. The last element has the error: ErrNoAnswer if nodes have not
	// answered to the end. A node has 16 snapshots under way at most.
	Snapshot(ctx context.Context, f inspect.Filter) iter.Seq2[inspect.Page, error]
	// Flight is like Connections for recent events of clients and channels: see Config.FlightRecorder.
	Flight(ctx context.Context, q inspect.Query) (inspect.Log, error)
	// Tap watches a user or a channel on all nodes until ctx ends. It has an element four times a second, also without
	// events: the first when all nodes that answer watch, the last with the error. observe.Tap has the bounds.
	Tap(ctx context.Context, t observe.Tap) iter.Seq2[[]observe.Tapped, error]
	// Users iterates over the users of this node's connections, some hundreds at a time, and a user perhaps more than
	// once; without anonymous ones. The last element has the error of ctx.
	Users(ctx context.Context) iter.Seq2[[]string, error]
	// NumSubscribers is the number of connections of this node that are subscribed to a channel, or about to be. It
	// waits for a turn of each loop: microseconds, or milliseconds on a busy node. The error is of ctx. Cluster.Channels
	// asks all nodes.
	NumSubscribers(ctx context.Context, ch string) (int, error)
	// Load returns the messages that wait for slow clients, and how far the node's clock is off. It asks the loops; the
	// error is of ctx.
	Load(ctx context.Context) (observe.Load, error)
	// Panics is the number of contained panics in handlers, engines and the node itself. Each is logged with the client
	// and the stack. After a panic in a handler its client gets error 100, after any other it is disconnected with 3004.
	Panics() uint64
}

// Inspect returns the methods for operators.
func (n *Node) Inspect() Inspector { return inspection{n} }

type inspection struct{ node *Node }

func (i inspection) Connections(ctx context.Context, f inspect.Filter) (inspect.Connections, error) {
	i.node.countSurvey()
	return i.node.member.Inspector.Connections(ctx, f)
}

func (i inspection) Snapshot(ctx context.Context, f inspect.Filter) iter.Seq2[inspect.Page, error] {
	return func(yield func(inspect.Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages, result := make(chan inspect.Page), make(chan error, 1)
		// The loop body runs on the goroutine of the caller.
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
	return sequence(func(yield func([]observe.Tapped) error) error {
		return tap.Watch(ctx, t, i.node.cluster.Survey, yield)
	})
}

func (i inspection) Users(ctx context.Context) iter.Seq2[[]string, error] {
	return sequence(func(yield func([]string) error) error { return i.node.member.Inspector.Users(ctx, yield) })
}

func (i inspection) NumSubscribers(ctx context.Context, ch string) (int, error) {
	return i.node.clients.Subscribers(ctx, ch)
}

func (i inspection) Load(ctx context.Context) (observe.Load, error) { return i.node.clients.Load(ctx) }

func (i inspection) Panics() uint64 { return i.node.clients.Panics() }

var errBreak = errors.New("gyro: the loop has ended")

// sequence returns an iterator over the values of walk, whose error is in the last element.
func sequence[T any](walk func(yield func(T) error) error) iter.Seq2[T, error] {
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
