//go:build linux

package million

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/stamp"
	"github.com/gyrohq/gyro/protocol/codec"
)

const payload = 128

// Publisher publishes over the HTTP API of several nodes. Messages of a channel go over one of them, so they have an
// order.
type Publisher struct {
	stand *Stand
	http  *http.Client

	mu     sync.Mutex
	issued map[plan.Channel]uint64
}

const workers = 4

func newPublisher(s *Stand) *Publisher {
	return &Publisher{stand: s, issued: map[plan.Channel]uint64{}, http: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true},
	}}
}

// Issued returns the number of messages by channel, as orders have it.
func (p *Publisher) Issued() [][2]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list [][2]uint64
	for ch, n := range p.issued {
		list = append(list, [2]uint64{uint64(ch), n})
	}
	return list
}

// Publication is a task for Publish.
type Publication struct {
	Channels []plan.Channel // in turn
	Rate     float64        // publications per second, of all channels together
	For      time.Duration
	// Sure publishes a message again, with the same idempotency key, until a node accepts it, for at most half a minute.
	// Else the first failure ends Publish.
	Sure bool
	// Nodes to publish to; nil for all. Nodes that are down are left out.
	Nodes []int
	Stop  <-chan struct{}
}

type Sent struct {
	Publications uint64
	Deliveries   uint64 // that these make
	Retries      uint64
	// Accepted are the microseconds of requests, with all attempts.
	Accepted *hdrhistogram.Histogram
	Took     time.Duration
}

func (s *Sent) add(o Sent) {
	s.Publications += o.Publications
	s.Deliveries += o.Deliveries
	s.Retries += o.Retries
	s.Accepted.Merge(o.Accepted)
	s.Took = max(s.Took, o.Took)
}

// Publish publishes at a rate, whatever time the answers take: late messages go as soon as possible, and their stamps
// have the time when they were due.
func (p *Publisher) Publish(ctx context.Context, pub Publication) (Sent, error) {
	nodes := pub.Nodes
	if nodes == nil {
		for i := range p.stand.Nodes {
			nodes = append(nodes, i)
		}
	}
	n := min(workers, len(pub.Channels), len(nodes))
	sent, errs := make([]Sent, n), make([]error, n)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range n {
		w := &worker{p: p, pub: pub, rate: pub.Rate / float64(n), end: begin.Add(pub.For), sent: Sent{Accepted: load.NewHistogram()}}
		w.begin = begin.Add(time.Duration(float64(i) / pub.Rate * float64(time.Second))) // in turn
		for j := i; j < len(pub.Channels); j += n {
			w.channels = append(w.channels, pub.Channels[j])
		}
		for j := i; j < len(nodes); j += n {
			w.nodes = append(w.nodes, nodes[j])
		}
		if pub.Sure {
			w.nodes, w.turn = nodes, i // there is another one if one fails
		}
		all.Go(func() { errs[i] = w.run(ctx); sent[i] = w.sent })
	}
	all.Wait()
	sum := Sent{Accepted: load.NewHistogram(), Took: time.Since(begin)}
	for _, s := range sent {
		sum.add(s)
	}
	return sum, errors.Join(errs...)
}

type worker struct {
	p        *Publisher
	pub      Publication
	channels []plan.Channel
	nodes    []int
	begin    time.Time // when the first publication is due; end is when none is any more
	end      time.Time
	rate     float64
	sent     Sent
	turn     int
	body     []byte
	data     []byte
}

// A request has the publications of some milliseconds, up to so many.
const (
	gather    = 4 * time.Millisecond
	mostBatch = 500
)

func (w *worker) due(n uint64) time.Time {
	return w.begin.Add(time.Duration(float64(n) / w.rate * float64(time.Second)))
}

func (w *worker) run(ctx context.Context) error {
	for {
		next := w.due(w.sent.Publications)
		if !next.Before(w.end) {
			return nil
		}
		wait := time.Until(next)
		if wait > 0 {
			wait = max(wait, gather)
		}
		select {
		case <-w.pub.Stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		if err := w.send(ctx); err != nil {
			return err
		}
	}
}

func (w *worker) send(ctx context.Context) error {
	w.body = append(w.body[:0], `{"commands":[`...)
	now, count, deliveries := time.Now(), 0, 0
	w.p.mu.Lock()
	for due := w.due(w.sent.Publications); count < mostBatch && due.Before(w.end) && !due.After(now); due = w.due(w.sent.Publications + uint64(count)) {
		ch := w.channels[(int(w.sent.Publications)+count)%len(w.channels)]
		number := w.p.issued[ch]
		w.p.issued[ch]++
		w.data = stamp.Stamp{Number: number, Due: due.UnixNano()}.Append(w.data[:0], payload)
		if count > 0 {
			w.body = append(w.body, ',')
		}
		w.body = codec.AppendJSONString(append(w.body, `{"publish":{"channel":`...), []byte(ch.String()))
		if w.pub.Sure {
			w.body = strconv.AppendUint(append(w.body, `,"idempotency_key":"`...), number, 10)
			w.body = append(w.body, '"')
		}
		w.body = append(append(append(w.body, `,"data":`...), w.data...), "}}"...)
		count++
		deliveries += w.p.stand.Plan.Subscribers(ch)
	}
	w.p.mu.Unlock()
	if count == 0 {
		return nil
	}
	w.body = append(w.body, "]}"...)
	w.sent.Publications += uint64(count)
	w.sent.Deliveries += uint64(deliveries)
	return w.post(ctx, count)
}

const sure = 30 * time.Second

func (w *worker) post(ctx context.Context, count int) error {
	begin := time.Now()
	defer func() { _ = w.sent.Accepted.RecordValue(max(1, time.Since(begin).Microseconds())) }() // within its bounds
	for deadline := begin.Add(sure); ; w.sent.Retries++ {
		err := w.p.batch(ctx, w.node().Addr, w.body, count)
		if err == nil || !w.pub.Sure || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (w *worker) node() *Server {
	for range w.nodes {
		n := w.p.stand.Nodes[w.nodes[w.turn%len(w.nodes)]]
		w.turn++
		if !n.down.Load() {
			return n
		}
	}
	return w.p.stand.Nodes[w.nodes[w.turn%len(w.nodes)]]
}

func (p *Publisher) batch(ctx context.Context, address string, body []byte, count int) error {
	text, err := p.post(ctx, address, "batch", body)
	if err != nil {
		return err
	}
	var answer struct {
		Error   *json.RawMessage
		Replies []struct{ Error *json.RawMessage }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s answers %.200q to a batch: %w", address, text, err)
	}
	failed := slices.IndexFunc(answer.Replies, func(r struct{ Error *json.RawMessage }) bool { return r.Error != nil })
	switch {
	case answer.Error != nil:
		return fmt.Errorf("%s refuses a batch: %s", address, *answer.Error)
	case len(answer.Replies) != count:
		return fmt.Errorf("%s gives %d answers to %d publications", address, len(answer.Replies), count)
	case failed >= 0:
		return fmt.Errorf("%s refuses a publication: %s", address, *answer.Replies[failed].Error)
	}
	return nil
}

func (p *Publisher) post(ctx context.Context, address, method string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", apiKey)
	res, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP status %d to %s: %.200s", address, res.StatusCode, method, text)
	}
	return text, err
}
