// Package redisstream consumes Redis streams as a consumer group.
package redisstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	maxRead = 256
	// blockTime is how long a read waits for an entry: the longest delay of a stop.
	blockTime     = time.Second
	claimInterval = 5 * time.Second
	ackRetries    = 5
	startTimeout  = 5 * time.Second
)

// Source is a queues.Source, with a consumer of its own in the group.
type Source struct {
	cfg        *config.RedisConsumer
	deadLetter string // a stream
	shard      redis.Shard
	consumer   string
	interval   time.Duration // of claims; tests set another one
	redis      rueidis.Client
	mu         sync.Mutex
	last       map[string]string // ID of the last entry that was read, by stream
	unsure     bool              // a read may have delivered entries that never came
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) {
	s := &Source{cfg: &c.RedisStream, deadLetter: c.DeadLetter, consumer: rand.Text(), last: make(map[string]string)}
	s.interval = min(claimInterval, s.cfg.VisibilityTimeout)
	shards, err := services.RedisShards(&s.cfg.Redis)
	if err != nil {
		return nil, err
	}
	s.shard = shards[0]
	return s, nil
}

func (s *Source) connect(ctx context.Context) (rueidis.Client, error) {
	return services.Redis(ctx, &s.shard, services.AddressKey(&s.cfg.Redis))
}

// Connect implements queues.Source.
func (s *Source) Connect(ctx context.Context) (err error) {
	ctx, cancel := services.Bound(ctx, startTimeout)
	defer cancel()
	if s.redis, err = s.connect(ctx); err != nil {
		return err
	}
	for _, stream := range s.cfg.Streams {
		if err := s.createGroup(ctx, stream); err != nil {
			return services.Blame("streams", err)
		}
	}
	return nil
}

// Probe implements queues.Source: it asks for the lengths of the streams, which need not be there.
func (s *Source) Probe(ctx context.Context) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, stream := range s.cfg.Streams {
		if err := client.Do(ctx, client.B().Xlen().Key(stream).Build()).Error(); err != nil {
			return services.Blame("streams", fmt.Errorf("stream %s: %w", stream, err))
		}
	}
	return nil
}

// Close implements queues.Source.
func (s *Source) Close() {
	if s.redis != nil {
		s.redis.Close()
	}
}

// createGroup creates the group unless it exists, to begin behind the last entry that this source has read, or else with
// entries that are added later.
func (s *Source) createGroup(ctx context.Context, stream string) error {
	s.mu.Lock()
	start := s.last[stream]
	s.mu.Unlock()
	if start == "" {
		start = "$"
	}
	err := s.redis.Do(ctx, s.redis.B().XgroupCreate().Key(stream).Group(s.cfg.ConsumerGroup).Id(start).Mkstream().Build()).Error()
	if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "BUSYGROUP") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", stream, err)
	}
	return nil
}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var wg sync.WaitGroup
	for _, stream := range s.cfg.Streams {
		for range s.cfg.NumWorkers {
			wg.Go(func() { s.read(ctx, work, p, stream) })
		}
		wg.Go(func() { s.claim(ctx, work, p, stream) })
	}
	wg.Wait()
	s.leave(work)
	return nil
}

func (s *Source) read(ctx, work context.Context, p *queues.Processor, stream string) {
	var outage logging.Outage
	what := "reading stream " + stream
	for ctx.Err() == nil {
		// The read is not interrupted, because Redis may be delivering entries already.
		cmd := s.redis.B().Xreadgroup().Group(s.cfg.ConsumerGroup, s.consumer).Count(maxRead).Block(blockTime.Milliseconds()).
			Streams().Key(stream).Id(">").Build()
		found, err := s.redis.Do(work, cmd).AsXRead()
		switch {
		case rueidis.IsRedisNil(err):
			p.Works(&outage, what)
			continue
		case err != nil:
			s.failed(ctx, work, p, &outage, stream, err)
			continue
		}
		p.Works(&outage, what)
		entries := found[stream]
		if len(entries) == 0 {
			continue
		}
		s.mu.Lock()
		s.last[stream] = entries[len(entries)-1].ID
		s.mu.Unlock()
		s.process(work, p, stream, entries)
	}
}

func (s *Source) failed(ctx, work context.Context, p *queues.Processor, outage *logging.Outage, stream string, err error) {
	if e, ok := rueidis.IsRedisErr(err); !ok {
		s.mu.Lock()
		s.unsure = true
		s.mu.Unlock()
	} else if strings.HasPrefix(e.Error(), "NOGROUP") {
		if created := s.createGroup(work, stream); created == nil {
			p.Log().Warn("consumer group was gone, created it again", "stream", stream, "group", s.cfg.ConsumerGroup)
			return
		}
	}
	services.Sleep(ctx, max(p.Failed(outage, "reading stream "+stream, err), 200*time.Millisecond))
}

// process acknowledges the entries that are done. The others are delivered again after the visibility timeout.
func (s *Source) process(work context.Context, p *queues.Processor, stream string, entries []rueidis.XRangeEntry) {
	messages := make([]*queues.Message, 0, len(entries))
	done := make([]string, 0, len(entries))
	for _, e := range entries {
		payload, ok := e.FieldValues[s.cfg.PayloadValue]
		if !ok {
			p.Log().Error("entry has no payload, it is skipped", "stream", stream, "message", e.ID, "field", s.cfg.PayloadValue)
			p.Meter().Processed(1)
			done = append(done, e.ID)
			continue
		}
		m := &queues.Message{ID: stream + " " + e.ID, Method: e.FieldValues[s.cfg.MethodValue], Payload: []byte(payload)}
		m.Attributes = make([]queues.Attribute, 0, len(e.FieldValues))
		for k, v := range e.FieldValues {
			m.Attributes = append(m.Attributes, queues.Attribute{Key: k, Value: v})
		}
		messages = append(messages, m)
	}
	p.Process(work, messages)
	for _, m := range messages {
		if m.Outcome == queues.Done {
			done = append(done, m.ID[len(stream)+1:])
		}
	}
	if len(done) == 0 {
		return
	}
	if err := s.acknowledge(work, stream, done); err != nil {
		p.Meter().Failed()
		p.Log().Error("entries cannot be acknowledged, they will be executed again", "stream", stream, "entries", len(done), "error", err)
	}
}

// acknowledge tries again if a connection fails: to acknowledge an entry twice does no harm, to execute it twice may.
func (s *Source) acknowledge(work context.Context, stream string, ids []string) error {
	for retry := 1; ; retry++ {
		err := s.redis.Do(work, s.redis.B().Xack().Key(stream).Group(s.cfg.ConsumerGroup).Id(ids...).Build()).Error()
		if _, answered := rueidis.IsRedisErr(err); err == nil || answered || retry > ackRetries || !services.Sleep(work, services.Backoff(retry)) {
			return err
		}
	}
}

func (s *Source) claim(ctx, work context.Context, p *queues.Processor, stream string) {
	var outage logging.Outage
	what := "claiming entries of stream " + stream
	for services.Sleep(ctx, s.interval) {
		s.measure(work, p, stream)
		start := "0-0"
		for ctx.Err() == nil {
			next, entries, err := s.claimFrom(work, stream, start)
			if err != nil {
				if e, ok := rueidis.IsRedisErr(err); !ok || !strings.HasPrefix(e.Error(), "NOGROUP") {
					p.Failed(&outage, what, err)
				}
				break
			}
			p.Works(&outage, what)
			if len(entries) > 0 {
				s.process(work, p, stream, entries)
			}
			if start = next; start == "0-0" {
				break
			}
		}
	}
}

// claimFrom also returns the ID to go on at; 0-0 at the end.
func (s *Source) claimFrom(ctx context.Context, stream, start string) (next string, entries []rueidis.XRangeEntry, err error) {
	cmd := s.redis.B().Xautoclaim().Key(stream).Group(s.cfg.ConsumerGroup).Consumer(s.consumer).
		MinIdleTime(fmt.Sprint(s.cfg.VisibilityTimeout.Milliseconds())).Start(start).Count(maxRead).Build()
	reply, err := s.redis.Do(ctx, cmd).ToArray()
	if err != nil {
		return "", nil, err
	}
	if len(reply) < 2 {
		return "", nil, errors.New("unexpected answer to XAUTOCLAIM")
	}
	if next, err = reply[0].ToString(); err != nil {
		return "", nil, err
	}
	items, err := reply[1].ToArray()
	if err != nil {
		return "", nil, err
	}
	for i := range items {
		if items[i].IsNil() { // deleted from the stream (Redis 6.2)
			continue
		}
		e, err := items[i].AsXRangeEntry()
		if err != nil {
			return "", nil, err
		}
		entries = append(entries, e)
	}
	return next, entries, nil
}

// measure reports the lag, which Redis tells from version 7 on.
func (s *Source) measure(ctx context.Context, p *queues.Processor, stream string) {
	groups, err := s.redis.Do(ctx, s.redis.B().XinfoGroups().Key(stream).Build()).ToArray()
	if err != nil {
		return
	}
	for i := range groups {
		g, err := groups[i].AsMap()
		if err != nil {
			return
		}
		of, lag, pending := g["name"], g["lag"], g["pending"]
		if name, _ := of.ToString(); name != s.cfg.ConsumerGroup {
			continue
		}
		if n, err := lag.AsInt64(); err == nil {
			waiting, _ := pending.AsInt64()
			p.Meter().Lag(stream, n+waiting)
		}
	}
}

// leave removes the consumer from the groups, unless it may have entries that were not acknowledged: Redis hands those
// to others only while it knows their owner.
func (s *Source) leave(ctx context.Context) {
	if s.unsure {
		return
	}
	for _, stream := range s.cfg.Streams {
		_ = leave.Exec(ctx, s.redis, []string{stream}, []string{s.cfg.ConsumerGroup, s.consumer}).Error() // an idle consumer does no harm
	}
}

var leave = rueidis.NewLuaScript(`
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return 0`)

// KeepDeadLetter implements queues.Source.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	cmd := s.redis.B().Xadd().Key(s.deadLetter).Id("*").FieldValue().
		FieldValue("message", m.ID).FieldValue("reason", reason.Error())
	for _, a := range m.Attributes {
		if a.Key != "message" && a.Key != "reason" {
			cmd = cmd.FieldValue(a.Key, a.Value)
		}
	}
	return s.redis.Do(ctx, cmd.Build()).Error()
}
