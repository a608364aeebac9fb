package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

// Codes of answers. Others belong to the application.
const (
	CodeOK        = 0
	CodeInternal  = 1 // the data is a text that says why
	CodeInvalid   = 2 // the request makes no sense
	CodeUnknownOp = 3
)

const (
	// Timeout bounds a survey whose context has no deadline.
	Timeout = 10 * time.Second
	// MaxData bounds the data of a request and of an answer, in bytes, maxTotal all answers of a survey together.
	MaxData  = 16 << 20
	maxTotal = 256 << 20
	// maxSurvey bounds a survey whose context has a later deadline.
	maxSurvey = 5 * time.Minute
	// maxAsking is how many surveys of this node are under way at a time; more wait. maxAnswering is how many surveys of
	// other nodes it answers at a time; more get no answer. It is larger, as a node may begin its next survey before the
	// answer to the last one has left the list here.
	maxAsking    = 64
	maxAnswering = 2 * maxAsking
)

var (
	// ErrNoAnswer means that the nodes which the error names have not answered a survey or confirmed a command. They may
	// have done the command, but will not do it later.
	ErrNoAnswer    = errors.New("gyro: no answer")
	ErrUnknownNode = errors.New("gyro: no such node in the cluster")
	errSilent      = errors.New("not heard of for too long")
	errClosed      = errors.New("gyro: node was shut down")
	errNotStarted  = errors.New("gyro: node does not run")
)

// Answer of one node to a survey.
type Answer struct {
	Code uint32
	Data []byte
}

// survey is guarded by the cluster's lock.
type survey struct {
	to      string              // the only node asked; empty for all
	waiting map[string]struct{} // nodes that have not answered
	answers map[string]Answer
	total   int   // bytes of the answers
	err     error // of finish
	done    chan struct{}
}

func (s *survey) finish(err error) {
	select {
	case <-s.done:
	default:
		s.err = err
		close(s.done)
	}
}

func (s *survey) removeNode(uid string) {
	delete(s.waiting, uid)
	if len(s.waiting) == 0 {
		s.finish(nil)
	}
}

// Survey asks all nodes, this one included, or the one named by to. It returns the answers by UID when each known node
// has answered or left. If ctx ends earlier, or after 10 s if ctx has no deadline, or earlier if only silent nodes are
// missing, which may have clients for 45 s, it returns the answers so far with an error that names the missing nodes.
func (c *Cluster) Survey(ctx context.Context, op string, data []byte, to string) (map[string]Answer, error) {
	return c.survey(ctx, c.asking, op, data, to)
}

func (c *Cluster) survey(ctx context.Context, slots chan struct{}, op string, data []byte, to string) (map[string]Answer, error) {
	if len(data) > MaxData {
		return nil, fmt.Errorf("gyro: data of survey %q has %d bytes, which is more than %d", op, len(data), MaxData)
	}
	timeout := maxSurvey
	if _, ok := ctx.Deadline(); !ok {
		timeout = Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("gyro: survey %q waited for %d others: %w", op, cap(slots), ctx.Err())
	}
	id, s, err := c.open(to)
	if err != nil {
		return nil, err
	}
	defer c.forget(id)
	if to != c.cfg.UID && !c.alone() {
		req := &control.SurveyRequest{ID: id, Op: op, Data: data, Timeout: milliseconds(ctx)}
		if err := c.publish(ctx, to, &control.Command{SurveyRequest: req}); errors.Is(err, broker.ErrNoReceiver) {
			return nil, fmt.Errorf("%w of node %s to survey %q: %w", ErrNoAnswer, to, op, err)
		} else if err != nil {
			return nil, err
		}
	}
	if to == "" || to == c.cfg.UID {
		c.work.Go(func() {
			a := c.ask(ctx, c.cfg.UID, op, data)
			c.collect(c.cfg.UID, &control.SurveyResponse{ID: id, Code: a.Code, Data: a.Data})
		})
	}
	c.await(ctx, s)
	return c.outcome(ctx, op, s)
}

const (
	// A node that came back just now can answer before the first look for silent nodes.
	silentPause = 300 * time.Millisecond
	// Unless these nodes are more than maxSingle, it asks the engine at the first looks, and then at every maxLooks,
	// whether any process receives their messages.
	firstLooks, maxLooks = 3, 10
)

func (c *Cluster) await(ctx context.Context, s *survey) {
	ticker := time.NewTicker(silentPause)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-s.done:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		missing := c.notSilent(s.waiting)
		c.mu.Unlock()
		if len(missing) <= maxSingle && (looks <= firstLooks || looks%maxLooks == 0) {
			c.probe(ctx, missing)
		}
		c.mu.Lock()
		if _, own := s.waiting[c.cfg.UID]; !own && len(c.notSilent(s.waiting)) == 0 {
			s.finish(errSilent)
		}
		c.mu.Unlock()
	}
}

// probe sends these nodes an empty message, unless another survey just has.
func (c *Cluster) probe(ctx context.Context, uids []string) {
	now := time.Now()
	c.mu.Lock()
	uids = slices.DeleteFunc(uids, func(uid string) bool {
		e := c.registry.nodes[uid]
		if e == nil || now.Sub(e.probed) < absentAfter {
			return true
		}
		e.probed = now
		return false
	})
	c.mu.Unlock()
	for _, uid := range uids {
		if ctx.Err() == nil {
			_ = c.publish(ctx, uid, &control.Command{}) // publish notes it if no process receives the message
		}
	}
}

func milliseconds(ctx context.Context) uint32 {
	deadline, _ := ctx.Deadline()
	return uint32(min(max(time.Until(deadline).Milliseconds(), 1), maxSurvey.Milliseconds()))
}

func (c *Cluster) open(to string) (id uint64, s *survey, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, nil, errClosed
	case !c.started:
		return 0, nil, errNotStarted
	}
	s = &survey{to: to, waiting: make(map[string]struct{}), answers: make(map[string]Answer), done: make(chan struct{})}
	now := time.Now()
	e, known := c.registry.nodes[to]
	switch {
	case to == "":
		for uid, e := range c.registry.nodes {
			if c.registry.populated(e, now) {
				s.waiting[uid] = struct{}{}
			}
		}
		s.waiting[c.cfg.UID] = struct{}{}
	case known && c.registry.populated(e, now) || to == c.cfg.UID:
		s.waiting[to] = struct{}{}
	default:
		return 0, nil, fmt.Errorf("%w: %q", ErrUnknownNode, to)
	}
	c.lastID++
	c.surveys[c.lastID] = s
	c.work.Add(1)
	return c.lastID, s, nil
}

func (c *Cluster) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.surveys, id)
	c.work.Done()
}

func (c *Cluster) collect(from string, r *control.SurveyResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.surveys[r.ID]
	if s == nil {
		return // too late
	}
	if _, ok := s.answers[from]; ok {
		return
	}
	if s.total += len(r.Data); s.total > maxTotal || len(s.answers) > maxNodes {
		clear(s.waiting)
		s.finish(fmt.Errorf("the answers have more than %d bytes", maxTotal))
		return
	}
	s.answers[from] = Answer{Code: r.Code, Data: r.Data}
	s.removeNode(from)
}

// The lock is held.
func (c *Cluster) removeFromSurveys(uid string) {
	for _, s := range c.surveys {
		if _, ok := s.waiting[uid]; ok {
			s.removeNode(uid)
		}
	}
}

// outcome ends a survey: later answers do not count.
func (c *Cluster) outcome(ctx context.Context, op string, s *survey) (map[string]Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.finish(ctx.Err())
	answers := maps.Clone(s.answers)
	switch {
	case s.err == nil && s.to != "" && len(answers) == 0: // it has left
		return nil, fmt.Errorf("%w: %q", ErrUnknownNode, s.to)
	case s.err == nil:
		return answers, nil
	case c.closed:
		return answers, errClosed
	case len(s.waiting) == 0:
		return answers, fmt.Errorf("gyro: survey %q: %w", op, s.err)
	}
	return answers, fmt.Errorf("%w of node %s to survey %q: %w", ErrNoAnswer, c.names(s.waiting), op, s.err)
}

func (c *Cluster) answer(from string, req *control.SurveyRequest) {
	slots := c.answering
	if req.Op == opEmulation {
		slots = c.emulating
	}
	if !c.admit(slots, from, req.Op) {
		return
	}
	ask := func(ctx context.Context) Answer { return c.ask(ctx, from, req.Op, req.Data) }
	if req.Op == opEmulation {
		ask = c.dispatch(req.Data)
	}
	go func() {
		defer c.work.Done()
		defer func() { <-slots }()
		timeout := Timeout
		if req.Timeout > 0 {
			timeout = min(time.Duration(req.Timeout)*time.Millisecond, maxSurvey)
		}
		ctx, cancel := context.WithTimeout(c.ctx, timeout)
		defer cancel()
		c.reply(ctx, from, req.ID, ask(ctx))
	}()
}

func (c *Cluster) admit(slots chan struct{}, from, op string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case slots <- struct{}{}:
		c.work.Add(1)
		return true
	default:
		c.log.Warn("survey is not answered: too many at a time", "op", op, "node", from, "limit", cap(slots))
		return false
	}
}

// ask makes an answer of a panic of the application's handler.
func (c *Cluster) ask(ctx context.Context, from, op string, data []byte) (a Answer) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("handler panicked", "handler", "Survey", "op", op, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			a = failed("the handler panicked")
		}
	}()
	switch {
	case op == opChannels:
		a = c.answerChannels(ctx, data)
	case op == opEmulation:
		a = c.dispatch(data)(ctx)
	case Reserved(op):
		a = c.cfg.Handler.Inquire(ctx, op, data)
	default:
		var err error
		if a, err = c.cfg.Handler.Answer(ctx, from, op, data); err != nil {
			c.log.Error("handler failed", "handler", "Survey", "op", op, "error", err)
			a = failed("the handler failed")
		}
	}
	if len(a.Data) > MaxData {
		return failed(fmt.Sprintf("answer of %d bytes is longer than %d", len(a.Data), MaxData))
	}
	return a
}

func failed(reason string) Answer { return Answer{CodeInternal, []byte(reason)} }

func (c *Cluster) reply(ctx context.Context, to string, id uint64, a Answer) {
	send := func(a Answer) error {
		r := &control.SurveyResponse{ID: id, Code: a.Code, Data: a.Data}
		return c.publish(ctx, to, &control.Command{SurveyResponse: r})
	}
	err := send(a)
	if err == nil || errors.Is(err, broker.ErrNoReceiver) {
		return
	}
	c.log.Warn("answer to a survey was not sent", "node", to, "bytes", len(a.Data), "error", err)
	if len(a.Data) > 0 && ctx.Err() == nil { // the controller may have a lower limit
		_ = send(failed(fmt.Sprintf("answer of %d bytes could not be sent", len(a.Data))))
	}
}
