// Package standby reads from standbys, and decides whether their answers are new enough: a standby is behind the primary
// by milliseconds or hours, away, or a server of another database.
package standby

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

// Pauses after failures, and after several answers in a row that were too old.
var (
	failedPauses = enginekit.Backoff{Min: time.Second, Max: 30 * time.Second}
	behindPauses = enginekit.Backoff{Min: 50 * time.Millisecond, Max: time.Second}
)

// patience is how many answers in a row may be too old.
const patience = 4

// Set is a number of servers. Each answers for some channels.
type Set struct {
	list                       []*Server
	answers, repeats, failures atomic.Uint64
}

type Server struct {
	set  *Set
	name string
	pool *pgxpool.Pool
	cfg  Config

	until  atomic.Int64 // not asked before, by enginekit.Since
	mu     sync.Mutex
	failed int // questions in a row without an answer; 0: it answers
	behind int // answers in a row that were too old
	rests  int // pauses in a row because of them
}

// Config of a set.
type Config struct {
	// Timeout is how long a server may take.
	Timeout time.Duration
	Logger  *slog.Logger
}

// New returns a set that connects when it is asked. The caller calls Close.
func New(ctx context.Context, cfg Config, names []string, pools []*pgxpool.Config) (*Set, error) {
	s := &Set{}
	for i, name := range names {
		pool, err := pgxpool.NewWithConfig(ctx, pools[i])
		if err != nil {
			s.Close()
			return nil, err
		}
		s.list = append(s.list, &Server{set: s, name: name, pool: pool, cfg: cfg})
	}
	return s, nil
}

// Close closes all connections. It waits for questions under way.
func (s *Set) Close() {
	for _, r := range s.list {
		r.pool.Close()
	}
}

// Of returns the server of a channel, nil during a pause of the server.
func (s *Set) Of(ch string) *Server {
	// The shard of the channel comes from the lower bits of the hash.
	high, _ := bits.Mul32(schema.HashText(ch), uint32(len(s.list)))
	r := s.list[high]
	if enginekit.Since(time.Now()) < r.until.Load() {
		return nil
	}
	return r
}

// Counts returns how many answers counted, how many reads were repeated because the answer may have been too old, and
// how many questions had no answer.
func (s *Set) Counts() (answers, repeats, failures uint64) {
	return s.answers.Load(), s.repeats.Load(), s.failures.Load()
}

// Answered counts an answer that the caller uses.
func (s *Set) Answered() { s.answers.Add(1) }

// Repeated counts an answer that may be too old in spite of what Ask says.
func (s *Set) Repeated() { s.repeats.Add(1) }

// Ask tells whether the answer has all that f says.
func (s *Server) Ask(ctx context.Context, ch string, f *Floor, q *Query) bool {
	floor, ok := f.Of(ch)
	if !ok {
		s.set.Repeated()
		return false
	}
	within, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	newest, err := q.Ask(within, s.pool, &floor)
	switch {
	case err == nil:
		f.Raise(newest)
		s.recovered()
		return true
	case errors.Is(err, errBehind):
		s.set.Repeated()
		s.late()
	case ctx.Err() == nil:
		s.set.failures.Add(1)
		s.fail(err)
	}
	return false
}

func (s *Server) recovered() {
	s.mu.Lock()
	failed := s.failed
	s.failed, s.behind, s.rests = 0, 0, 0
	s.mu.Unlock()
	if failed > 0 {
		s.cfg.Logger.Info("postgres: the replica answers again", "replica", s.name)
	}
}

func (s *Server) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind++
	if s.behind < patience {
		return
	}
	s.behind = 0
	s.rest(behindPauses.Pause(s.rests))
	s.rests++
}

// fail begins a pause, and logs the first failure. Questions from before the pause do not count.
func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if enginekit.Since(time.Now()) < s.until.Load() {
		return
	}
	if s.failed == 0 {
		s.cfg.Logger.Warn("postgres: the replica does not answer, the primary does in its place", "replica", s.name, "error", err)
	}
	s.rest(failedPauses.Pause(s.failed))
	s.failed++
}

func (s *Server) rest(d time.Duration) { s.until.Store(enginekit.Since(time.Now().Add(d))) }
