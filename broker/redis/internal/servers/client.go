// Package servers holds the connections to the servers of one shard: a multiplexed one for commands per server, by
// rueidis, and others for PUB/SUB. It finds the primary through Sentinel, and bounds how long anything waits.
package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Options are checked and have defaults.
type Options struct {
	// Name has no secrets.
	Name      string
	Addresses []string
	Sentinel  bool
	Cluster   bool
	Detect    bool

	User, Password string
	DB             int
	ClientName     string
	TLS            *tls.Config

	SentinelMaster, SentinelUser, SentinelPassword, SentinelClientName string
	SentinelTLS                                                        *tls.Config

	ConnectTimeout, IOTimeout time.Duration
	FlushDelay                time.Duration // negative: none
	Dial                      func(ctx context.Context, network, address string) (net.Conn, error)
	ForceRESP2                bool
	ReplicaReads              bool

	Logger *slog.Logger
}

const (
	// keepAlive is the interval of TCP keep-alive probes and, in a Cluster and for replicas, of rueidis' pings, which
	// notice a server that does not answer. Elsewhere watchLiveness does.
	keepAlive = 400 * time.Millisecond
	// ringScale: a connection has room for 2^ringScale calls, 0.3 KB each in several objects, which every collection of
	// garbage marks: with 2^12 and 5 shards that was a sixth of the objects of a node with 16,000 clients.
	ringScale = 10
	// maxInFlight calls wait for their answers, and further ones for room, no longer than IOTimeout. The ring must hold
	// more, because rueidis waits for room without a time limit.
	maxInFlight = 1<<ringScale - 64
	// MaxPipeline is for DoMulti.
	MaxPipeline = 1000
	bufferSize  = 256 << 10
)

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("closed")

// Client sends commands to a shard. Any goroutine may call its methods.
type Client struct {
	opts    Options
	redis   rueidis.Client
	replica rueidis.Client // of a Sentinel's shard, for Read; nil without
	cluster bool
	slots   chan struct{}   // one element per call in flight
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	once    sync.Once
	watch   sync.WaitGroup
	suspect chan struct{} // wakes watchSentinel
	outage  outage
	pause   pause // with Sentinel

	mu       sync.Mutex
	current  *trackedConn              // with Sentinel: the connection to the primary
	last     string                    // with Sentinel: the primary of the last connection
	commands map[*trackedConn]struct{} // the open connections for commands
	pubSub   map[*pubSubConn]struct{}  // with Sentinel
	next     atomic.Uint32

	owned      owned             // in a Cluster
	servers    map[string]string // see identify
	generation atomic.Uint64
	replaced   atomic.Bool
}

// Open fails when the shard does not answer within ConnectTimeout and IOTimeout, or refuses.
func Open(ctx context.Context, opts Options) (*Client, error) {
	c := &Client{
		opts: opts, slots: make(chan struct{}, maxInFlight), cluster: opts.Cluster,
		suspect: make(chan struct{}, 1), pubSub: map[*pubSubConn]struct{}{}, commands: map[*trackedConn]struct{}{}, servers: map[string]string{},
	}
	c.outage = outage{log: opts.Logger, name: opts.Name, primary: c.Primary}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.connect(ctx, opts.Cluster); err != nil {
		return nil, c.Explain(err)
	}
	if opts.Detect && c.inCluster(ctx) {
		c.redis.Close()
		c.current = nil
		c.cluster = true
		if err := c.connect(ctx, true); err != nil {
			return nil, c.Explain(err)
		}
	}
	if opts.Sentinel {
		if opts.ReplicaReads {
			if err := c.connectReplica(); err != nil {
				c.redis.Close()
				return nil, c.Explain(fmt.Errorf("replica: %w", err))
			}
		}
		c.watch.Go(c.watchSentinel)
		for i := range opts.Addresses {
			c.watch.Go(func() { c.listenSentinel(i) })
		}
	}
	if !c.cluster {
		c.watch.Go(c.watchLiveness)
	}
	return c, nil
}

func (c *Client) option() rueidis.ClientOption {
	o := &c.opts
	option := rueidis.ClientOption{
		InitAddress: o.Addresses, Username: o.User, Password: o.Password, ClientName: o.ClientName, SelectDB: o.DB,
		TLSConfig: o.TLS, AlwaysRESP2: o.ForceRESP2,
		ClientSetInfo: rueidis.DisableClientSetInfo,
		DisableCache:  true, DisableRetry: true, AlwaysPipelining: true, PipelineMultiplex: -1, BlockingPipeline: -1,
		RingScaleEachConn: ringScale, ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize,
		ConnWriteTimeout: c.pingTimeout(), MaxFlushDelay: max(o.FlushDelay, 0),
	}
	option.Dialer.Timeout = o.ConnectTimeout
	option.Dialer.KeepAlive = c.pingInterval()
	return option
}

const topologyInterval = 5 * time.Second

func (c *Client) connect(ctx context.Context, cluster bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	option := c.option()
	option.DialCtxFn = c.dialCommands
	option.ForceSingleClient = !cluster
	if !cluster {
		option.Dialer.KeepAlive = -1 // no pings by rueidis: watchLiveness is for that, and dialCommands has a dialer of its own
	}
	if cluster {
		option.ClusterOption.ShardsRefreshInterval = topologyInterval
		if c.opts.ReplicaReads {
			option.SendToReplicas = func(cmd rueidis.Completed) bool {
				name := cmd.Commands()[0] // see Read
				return name == "HGETALL" || name == "HLEN"
			}
		}
	} else {
		option.InitAddress = option.InitAddress[:1] // only a name: dialCommands finds the server
	}
	client, err := rueidis.NewClient(option)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, c.opts.IOTimeout) // watchLiveness does not run yet
		defer cancel()
		err = client.Do(ctx, client.B().Ping().Build()).Error()
	}
	if err != nil {
		if client != nil {
			client.Close()
		}
		return err
	}
	c.redis = client
	return nil
}

func (c *Client) connectReplica() (err error) {
	o := &c.opts
	option := c.option()
	option.ReplicaOnly = true
	option.Sentinel = rueidis.SentinelOption{
		MasterSet: o.SentinelMaster, Username: o.SentinelUser, Password: o.SentinelPassword, ClientName: o.SentinelClientName,
		TLSConfig: o.SentinelTLS, TopologyRefreshInterval: topologyInterval,
	}
	option.Sentinel.Dialer = option.Dialer
	if o.Dial != nil {
		option.DialCtxFn = c.dial
	}
	c.replica, err = rueidis.NewClient(option)
	return err
}

// Two intervals and the timeout of the ping, in which a server that has stopped is noticed, are IOTimeout.
func (c *Client) pingInterval() time.Duration { return min(keepAlive, c.opts.IOTimeout/4) }
func (c *Client) pingTimeout() time.Duration  { return c.opts.IOTimeout - 2*c.pingInterval() }

func (c *Client) inCluster(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.opts.IOTimeout)
	defer cancel()
	info, err := c.redis.Do(ctx, c.redis.B().Info().Section("cluster").Build()).ToString()
	return err == nil && strings.Contains(info, "cluster_enabled:1")
}

// Cluster tells whether the shard is a Redis Cluster, whose keys have hash tags.
func (c *Client) Cluster() bool { return c.cluster }

// Name of the shard, without secrets.
func (c *Client) Name() string { return c.opts.Name }

// B builds commands for Do and DoMulti.
func (c *Client) B() rueidis.Builder { return c.redis.B() }

// Do sends one command. Its error is one for Explain.
func (c *Client) Do(caller context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	ctx, cancel, err := c.begin(caller)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	defer c.end(cancel)
	result := c.redis.Do(ctx, cmd)
	if c.failedForAnother(ctx, result.NonRedisError()) {
		result = c.redis.Do(ctx, cmd)
	}
	c.checkPrimary(result.Error())
	c.note(caller, result.NonRedisError())
	return result
}

// Read does an HGETALL or HLEN, on a replica if the options say so and one answers.
func (c *Client) Read(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.replica == nil {
		return c.Do(ctx, cmd)
	}
	limited, cancel, err := c.begin(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := c.replica.Do(limited, cmd.Pin())
	c.end(cancel)
	if err := result.Error(); err != nil && ctx.Err() == nil {
		return c.Do(ctx, cmd.Pin())
	}
	return result
}

// DoMulti sends at most MaxPipeline commands at once. The slice may be used again only if no result has a NonRedisError.
func (c *Client) DoMulti(caller context.Context, cmds []rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel, err := c.begin(caller)
	if err != nil {
		results := make([]rueidis.RedisResult, len(cmds))
		for i := range results {
			results[i] = rueidis.NewErrorResult(err)
		}
		return results
	}
	defer c.end(cancel)
	results := c.redis.DoMulti(ctx, cmds...)
	var failure error
	for i := range results {
		if err := results[i].Error(); err != nil {
			c.checkPrimary(err)
			failure = results[i].NonRedisError()
			break
		}
	}
	c.note(caller, failure)
	return results
}

func (c *Client) note(caller context.Context, err error) {
	switch {
	case err == nil:
		c.outage.succeeded()
	case caller.Err() == nil && !errors.Is(err, rueidis.ErrClosing):
		c.outage.failed(err)
	}
}

// begin waits for the end of a failover and for room.
func (c *Client) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if c.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.IOTimeout)
	if err := c.pause.wait(ctx); err != nil {
		cancel()
		return nil, nil, err
	}
	select {
	case c.slots <- struct{}{}:
		return ctx, cancel, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, ctx.Err()
	}
}

func (c *Client) end(cancel context.CancelFunc) {
	cancel()
	<-c.slots
}

// failedForAnother: the command was not sent because the context of another call ended, which was first to need the
// connection.
func (c *Client) failedForAnother(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return false // its time is over, too
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (c *Client) checkPrimary(err error) {
	failure, ok := rueidis.IsRedisErr(err)
	if !ok {
		return
	}
	switch word, _, _ := strings.Cut(failure.Error(), " "); word {
	case "READONLY":
		c.replaced.Store(true)
		c.drop(errors.New("the server is not the primary any more: " + failure.Error()))
		c.suspectPrimary()
	case "MASTERDOWN", "LOADING":
		c.replaced.Store(true)
	}
}

// drop closes the connection for commands; the next command makes another.
func (c *Client) drop(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut(reason)
}

// cut is drop with mu held.
func (c *Client) cut(reason error) {
	if c.current != nil {
		c.current.setCause(reason)
		_ = c.current.Conn.Close()
		delete(c.commands, c.current)
		c.current = nil
	}
}

// Close frees everything; calls under way fail.
func (c *Client) Close() {
	c.once.Do(func() {
		c.cancel()
		c.pause.end()
		c.redis.Close()
		if c.replica != nil {
			c.replica.Close()
		}
	})
	c.watch.Wait()
}

// Explain names the shard, and what timed out. Nil stays nil.
func (c *Client) Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer in time: %w", c.opts.Name, err)
	case errors.Is(err, rueidis.ErrClosing):
		return fmt.Errorf("%s: the connection is closed", c.opts.Name)
	default:
		return fmt.Errorf("%s: %w", c.opts.Name, err)
	}
}

// MissingCommand is the error of a server that is too old.
type MissingCommand struct{ server, command, option, since string }

func (m *MissingCommand) Error() string {
	return fmt.Sprintf("%s does not know %s, which %s needs: that takes %s", m.server, m.command, m.option, m.since)
}

// Require returns a MissingCommand unless the server has a command, as servers have since a version.
func (c *Client) Require(ctx context.Context, command, option, since string) error {
	info, err := c.Do(ctx, c.B().Arbitrary("COMMAND", "INFO", command).Build()).ToArray()
	if err == nil && (len(info) == 0 || info[0].IsNil()) {
		return &MissingCommand{c.opts.Name, command, option, since}
	}
	return c.Explain(err)
}

// Explainer explains the errors of many results, mostly the same one. It is for one goroutine.
type Explainer struct {
	client    *Client
	err, said error
}

// Explainer returns one for this client.
func (c *Client) Explainer() *Explainer { return &Explainer{client: c} }

// Explain is Client.Explain.
func (e *Explainer) Explain(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, e.err) || e.err == nil {
		e.err, e.said = err, e.client.Explain(err)
	}
	return e.said
}
