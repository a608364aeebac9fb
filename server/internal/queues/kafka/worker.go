package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

type worker struct {
	source *Source
	client *kgo.Client
	p      *queues.Processor
	of     partition
	name   string // for logs and metrics
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{}

	mu     sync.Mutex
	queue  []*kgo.Record
	top    int64 // the offset behind the newest record of the partition
	paused bool
}

func newWorker(s *Source, client *kgo.Client, p *queues.Processor, of partition) *worker {
	w := &worker{
		source: s, client: client, p: p, of: of, name: fmt.Sprintf("%s/%d", of.topic, of.number),
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *worker) add(records []*kgo.Record, top int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.top = top
	if len(w.queue)+len(records) >= w.source.cfg.PartitionQueueMaxSize && !w.paused {
		w.paused = true
		w.client.PauseFetchPartitions(map[string][]int32{w.of.topic: {w.of.number}})
	}
	w.queue = append(w.queue, records...)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

const maxBatch = 256

// next also returns how many records wait behind the returned ones in the partition.
func (w *worker) next() (records []*kgo.Record, behind int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	records = slices.Clone(w.queue[:n])
	w.queue = slices.Delete(w.queue, 0, n)
	if n > 0 {
		behind = w.top - records[n-1].Offset - 1
	}
	return records, behind
}

func (w *worker) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused && len(w.queue) < w.source.cfg.PartitionQueueMaxSize {
		w.paused = false
		w.client.ResumeFetchPartitions(map[string][]int32{w.of.topic: {w.of.number}})
	}
}

func (w *worker) run(work context.Context) {
	defer close(w.done)
	defer func() { // the partition may come back to this client
		w.mu.Lock()
		w.queue = nil
		w.mu.Unlock()
		w.resume()
	}()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		}
		for w.ctx.Err() == nil {
			records, behind := w.next()
			if len(records) == 0 {
				break
			}
			if !w.execute(work, records) {
				return
			}
			w.p.Meter().Lag(w.name, behind)
			w.resume()
		}
	}
}

// execute returns false if the worker is stopped before all records are done.
func (w *worker) execute(work context.Context, records []*kgo.Record) bool {
	messages := make([]*queues.Message, len(records))
	for i, r := range records {
		messages[i] = w.message(r)
	}
	marked := 0 // records before this one are marked as consumed
	waiting := messages
	for retry := 1; ; retry++ {
		w.p.Process(work, waiting)
		for ; marked < len(messages) && messages[marked].Outcome == queues.Done; marked++ {
			w.client.MarkCommitRecords(records[marked])
		}
		if marked == len(messages) {
			return true
		}
		var left []*queues.Message
		for _, m := range messages[marked:] {
			if m.Outcome != queues.Done {
				left = append(left, m)
			}
		}
		if len(left) < len(waiting) {
			retry = 1
		}
		waiting = left
		if !services.Sleep(w.ctx, services.Backoff(retry)) {
			return false
		}
	}
}

func (w *worker) message(r *kgo.Record) *queues.Message {
	m := &queues.Message{ID: fmt.Sprintf("%s/%d", w.name, r.Offset), Payload: r.Value}
	for i := range r.Headers {
		a := queues.Attribute{Key: r.Headers[i].Key, Value: string(r.Headers[i].Value)}
		if a.Key == w.source.cfg.MethodHeader && m.Method == "" {
			m.Method = a.Value
		}
		m.Attributes = append(m.Attributes, a)
	}
	return m
}
