// Package cluster is a node's view of the other nodes: it knows which there are, sends them surveys, and makes each of
// them do commands. Messages travel by a broker.Controller, at most once and in any order, so a command is sent again
// until nodes confirm it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

const (
	// cleanInterval is how often a node looks for nodes that send no signs of life. So they miss a killed node after 7
	// to 16 s.
	pingInterval = 3 * time.Second
	// Signs of life fall on multiples of pingLength of the cluster's clock: a node wakes up once for all that come
	// together.
	pingLength     = pingInterval / 12
	cleanInterval  = 9 * time.Second
	publishTimeout = 5 * time.Second
	// maxCommand bounds a control message: the data of a survey, and 64 KiB for the fields around it.
	maxCommand = MaxData + 64<<10
	// More nodes than maxGreetings learn of this one by its next sign of life.
	maxGreetings = 256
)

// Handler is the node, as far as the cluster calls it. Any goroutine may call it.
type Handler interface {
	// Describe takes a second at most.
	Describe(ctx context.Context) inspect.Node
	// Apply does a subscribe, unsubscribe, disconnect or refresh, without waiting.
	Apply(cmd *control.Command)
	// Answer answers a survey of the application by the end of ctx. An error is logged.
	Answer(ctx context.Context, from, op string, data []byte) (Answer, error)
	// Inquire answers surveys of this version's nodes that the cluster does not answer itself, with names that begin
	// with "centrifuge_". The code is CodeUnknownOp if there is no such survey.
	Inquire(ctx context.Context, op string, data []byte) Answer
	// Channels returns the node's own channels with their numbers of subscribers.
	Channels(ctx context.Context, match func(string) bool) (map[string]int, error)
	// Dispatch hands commands to the client with a session ID, if there is one, in order and without waiting. The
	// channel is closed when they are dispatched.
	Dispatch(session string, data []byte) <-chan struct{}
}

// Config of a Cluster.
type Config struct {
	UID string
	// Controller is nil if the node is alone.
	Controller broker.Controller
	Handler    Handler
	Clocks     *clocks.Clocks
	Logger     *slog.Logger
}

// Cluster is one node's view of all. Any goroutine may use it.
type Cluster struct {
	cfg Config
	log *slog.Logger

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup
	// present ends with Leave, and with it greetings and signs of life.
	present context.Context
	absent  context.CancelFunc
	pings   sync.WaitGroup
	greet   chan string
	// Semaphores. asking and answering: surveys; relaying and emulating: surveys with clients' commands; telling:
	// commands.
	asking, answering, relaying, emulating, telling chan struct{}
	clock                                           clock
	toConfirm                                       chan struct{} // wakes runConfirm

	mu               sync.Mutex
	registry         registry
	surveys          map[uint64]*survey
	slots            map[string]*nodeSlots      // by the node that commands of clients are passed on to
	commands         map[uint64]*pendingCommand // by ID of the command
	lastID           uint64                     // of surveys and commands
	undelivered      int                        // number of commands that are kept for silent nodes
	undeliveredBytes int                        // their size
	redelivering     map[string]bool            // nodes that get them now
	kept             []*pendingCommand          // for nodes that this one does not know yet
	keptBytes        int
	keptFull         bool // the log says that no more are kept
	done             doneBefore
	confirm          map[string][]*control.Confirmed // by node, not sent yet
	started          bool
	left             bool
	closed           bool
	unheard          bool      // the last sign of life could not be sent
	warned           time.Time // when a message that was not understood was logged last
}

// New returns a cluster that knows no other node.
func New(cfg Config) *Cluster {
	c := &Cluster{
		cfg: cfg, log: cfg.Logger, clock: clock{clocks: cfg.Clocks},
		greet:  make(chan string, maxGreetings),
		asking: make(chan struct{}, maxAsking), answering: make(chan struct{}, maxAnswering),
		slots: make(map[string]*nodeSlots), relaying: make(chan struct{}, maxRelaying), emulating: make(chan struct{}, maxEmulating),
		telling: make(chan struct{}, maxTelling), toConfirm: make(chan struct{}, 1),
		registry: newRegistry(), surveys: make(map[uint64]*survey), commands: make(map[uint64]*pendingCommand),
		redelivering: make(map[string]bool), confirm: make(map[string][]*control.Confirmed),
	}
	c.clock.now()
	c.ctx, c.end = context.WithCancel(context.Background())
	c.present, c.absent = context.WithCancel(c.ctx)
	return c
}

// Listen starts receiving control messages.
func (c *Cluster) Listen() error {
	if c.alone() {
		return nil
	}
	if err := c.cfg.Controller.RunControl(c.cfg.UID, c.receive); err != nil {
		return fmt.Errorf("gyro: controller: %w", err)
	}
	return nil
}

func (c *Cluster) alone() bool { return c.cfg.Controller == nil }

// Start sends the first sign of life, in a few seconds at most, and further ones until Leave.
func (c *Cluster) Start() {
	c.mu.Lock()
	if c.started || c.left {
		c.mu.Unlock()
		return
	}
	c.started = true
	if c.alone() {
		c.mu.Unlock()
		return
	}
	c.pings.Add(1)
	c.work.Go(c.runConfirm)
	c.mu.Unlock()
	c.ping()
	go c.run()
}

func (c *Cluster) run() {
	defer c.pings.Done()
	ping, clean := time.NewTimer(c.untilPing(c.cfg.Clocks.Now())), time.NewTicker(cleanInterval)
	defer ping.Stop()
	defer clean.Stop()
	beat := func() {
		ping.Reset(c.untilPing(c.cfg.Clocks.Now()))
		c.ping()
	}
	for {
		select { // a ping that is due goes first
		case <-ping.C:
			beat()
			continue
		default:
		}
		select {
		case <-ping.C:
			beat()
		case <-clean.C:
			c.clean(time.Now())
		case uid := <-c.greet:
			_ = c.publish(c.present, uid, &control.Command{Node: c.describe()}) // the next ping follows
		case <-c.present.Done():
			return
		}
	}
}

// untilPing is the time until the next sign of life, at a time of the cluster in Unix nanoseconds.
func (c *Cluster) untilPing(at int64) time.Duration {
	return time.Duration(beat.Beat{}.Nearest(at, pingInterval, pingLength) - at)
}

func (c *Cluster) ping() {
	err := c.publish(c.present, "", &control.Command{Node: c.describe()})
	if c.present.Err() != nil {
		return
	}
	c.mu.Lock()
	was := c.unheard
	c.unheard = err != nil
	c.mu.Unlock()
	switch {
	case err != nil && !was:
		c.log.Warn("other nodes cannot be reached", "error", err)
	case err == nil && was:
		c.log.Info("other nodes can be reached again")
	}
}

func (c *Cluster) describe() *control.Node {
	info := c.cfg.Handler.Describe(c.present)
	info.UID = c.cfg.UID
	n := message(&info)
	n.Clock = int64(c.clock.now())
	if c.cfg.Clocks == nil {
		return n
	}
	now, reports := c.cfg.Clocks.Send(time.Now())
	n.Time = now
	for _, r := range reports {
		n.Delays = append(n.Delays, &control.Delay{Node: r.Node, Took: r.Took})
	}
	return n
}

func (c *Cluster) clean(now time.Time) {
	c.mu.Lock()
	lost := c.registry.expire(now)
	for _, o := range c.commands {
		if o.undelivered && now.Sub(o.at) > forgetAfter {
			c.discard(o)
		}
	}
	c.forgetKept(func(o *pendingCommand) bool { return now.Sub(o.at) > forgetAfter })
	c.mu.Unlock()
	for _, n := range lost {
		c.log.Warn("node is lost", "node", n.UID, "name", n.Name)
	}
}

// Nodes returns the other nodes, ordered by UID.
func (c *Cluster) Nodes() []inspect.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := make([]inspect.Node, 0, len(c.registry.nodes))
	for _, e := range c.registry.nodes {
		if !e.lost {
			nodes = append(nodes, infoOf(e.node))
		}
	}
	slices.SortFunc(nodes, func(a, b inspect.Node) int { return strings.Compare(a.UID, b.UID) })
	return nodes
}

// publish sends a command to one node, or to all if to is empty, in 5 s at most. It notes if no process receives
// messages for the node.
func (c *Cluster) publish(ctx context.Context, to string, cmd *control.Command) error {
	cmd.UID = c.cfg.UID
	if size := cmd.SizeProto(); size > maxCommand {
		return tooLong(size)
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	err := c.cfg.Controller.PublishControl(ctx, to, cmd.AppendProto(nil))
	if err == nil {
		return nil
	}
	if errors.Is(err, broker.ErrNoReceiver) {
		c.mu.Lock()
		c.registry.noReceiver(to, time.Now())
		c.mu.Unlock()
	}
	return fmt.Errorf("gyro: control message: %w", err)
}

func tooLong(size int) error {
	return fmt.Errorf("gyro: control message of %d bytes is longer than %d", size, maxCommand)
}

// receive handles a control message without waiting. It does not keep data.
func (c *Cluster) receive(data []byte) {
	var cmd control.Command
	if len(data) > maxCommand {
		c.warn(fmt.Errorf("%d bytes are more than %d", len(data), maxCommand))
		return
	}
	if err := cmd.UnmarshalProto(data); err != nil {
		c.warn(err)
		return
	}
	switch {
	case c.isClosed():
	case cmd.UID == "" || len(cmd.UID) > maxUID:
		c.warn(errors.New("no valid sender"))
		return
	case cmd.UID != c.cfg.UID: // this node has done its own commands already
		c.handle(&cmd)
	}
	c.mu.Lock()
	c.registry.hear(time.Now())
	c.registry.hasReceiver(cmd.UID)
	c.mu.Unlock()
}

func (c *Cluster) handle(cmd *control.Command) {
	switch {
	case cmd.Node != nil:
		c.alive(cmd.UID, cmd.Node)
	case cmd.Shutdown != nil:
		c.gone(cmd.UID)
	case cmd.SurveyRequest != nil:
		c.answer(cmd.UID, cmd.SurveyRequest)
	case cmd.SurveyResponse != nil:
		c.collect(cmd.UID, cmd.SurveyResponse)
	case cmd.Confirmation != nil:
		c.confirmed(cmd.UID, cmd.Confirmation)
	case cmd.Subscribe != nil, cmd.Unsubscribe != nil, cmd.Disconnect != nil, cmd.Refresh != nil:
		c.do(cmd)
	}
}

// alive greets a node that is unknown, because it does not know this one either.
func (c *Cluster) alive(uid string, n *control.Node) {
	n.UID = uid
	c.compare(uid, n)
	c.mu.Lock()
	now := time.Now()
	known := c.registry.knows(uid)
	unknown := c.registry.put(n, now)
	if !known && c.registry.knows(uid) {
		c.meetStranger(n, now)
	}
	greet := unknown && !c.left
	if c.undelivered > 0 {
		c.redeliver(uid)
	}
	c.mu.Unlock()
	if unknown {
		c.log.Info("node joined", "node", uid, "name", n.Name, "version", n.Version, "protocol", n.Protocol)
	}
	if greet {
		select {
		case c.greet <- uid:
		default:
		}
	}
}

func (c *Cluster) compare(uid string, n *control.Node) {
	if c.cfg.Clocks == nil {
		return
	}
	reports := make([]clocks.Report, min(len(n.Delays), clocks.MaxReports))
	for i := range reports {
		reports[i] = clocks.Report{Node: n.Delays[i].Node, Took: n.Delays[i].Took}
	}
	c.cfg.Clocks.Receive(uid, n.Time, reports, time.Now())
	n.Delays = nil // the registry keeps n
}

func (c *Cluster) gone(uid string) {
	c.mu.Lock()
	left := c.registry.remove(uid, time.Now())
	c.removeFromSurveys(uid)
	for _, o := range c.commands {
		c.removeWaiting(o, uid)
	}
	c.mu.Unlock()
	if left != nil {
		c.log.Info("node left", "node", uid, "name", left.Name)
	}
}

const warnPause = 10 * time.Second

func (c *Cluster) warn(err error) {
	c.mu.Lock()
	now := time.Now()
	due := c.warned.IsZero() || now.Sub(c.warned) >= warnPause
	if due {
		c.warned = now
	}
	c.mu.Unlock()
	if due {
		c.log.Warn("control message is not understood", "error", err)
	}
}

func (c *Cluster) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// farewellTimeout bounds the wait for a controller that may not work any more.
const farewellTimeout = 2 * time.Second

// Leave tells the other nodes that this one ends. It still answers them.
func (c *Cluster) Leave(ctx context.Context) {
	c.mu.Lock()
	if c.left {
		c.mu.Unlock()
		return
	}
	c.left = true
	started := c.started
	c.mu.Unlock()
	c.absent()
	c.pings.Wait() // no sign of life follows the farewell
	if !started || c.alone() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	if err := c.publish(ctx, "", &control.Command{Shutdown: &control.Shutdown{}}); err != nil {
		c.log.Warn("other nodes were not told of the shutdown", "error", err)
	}
}

// Close ends and awaits all work, answers included. From then on messages are ignored. Leave must be called before.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	c.registry = newRegistry()
	c.mu.Unlock()
	c.end()
	c.work.Wait()
}
