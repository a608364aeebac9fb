package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

type clients struct {
	clientDescs
	since   func() time.Duration
	stripes stripes[tally]
	totals  observe.Totals
	how     naming
}

type clientDescs struct {
	sent, received, actions, filtered       *prometheus.Desc
	suppressed, mapSuppressed, removal      *prometheus.Desc
	lag, broadcast, write                   *shape
	errors, disconnects, unsubscribes       *prometheus.Desc
	refusals, recover                       *prometheus.Desc
	commands, recovered, pongs              *shape // recovered is nil if it is not wanted
	connections, connected                  *prometheus.Desc
	subscriptions, subscribed               *prometheus.Desc
	messagesSent, bytesSent                 *prometheus.Desc
	messagesReceived, bytesReceived, closes *prometheus.Desc
}

var (
	surveyBuckets    = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	lagBuckets       = []float64{.001, .005, .01, .025, .05, .1, .2, .5, 1, 2, 5, 10}
	broadcastBuckets = []float64{1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	commandBuckets   = []float64{1e-4, 2.5e-4, 5e-4, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	writeBuckets     = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	recoveredBuckets = []float64{0, 1, 2, 3, 5, 10, 20, 50, 100, 250, 500, 1000, 2000, 5000, 10000}
)

// inSpace is the label for the namespace of a channel, empty without Config.ChannelNamespace.
const inSpace = "channel_namespace"

func newClients(m *Metrics) *clients {
	c := &clients{since: m.since, stripes: newStripes[tally](), how: naming{names: m.cfg.ClientNames, labels: m.labels, accept: m.cfg.AcceptProtocol}}
	d := &c.clientDescs
	d.sent = m.desc("node", "messages_sent_count", "Messages that the engines have accepted from this node.", "type", inSpace)
	d.received = m.desc("node", "messages_received_count", "Messages that this node has received from its engines, its own included.", "type", inSpace)
	d.actions = m.desc("node", "action_count", "What the node did with its clients, its engines and other nodes.", "action", inSpace)
	d.filtered = m.desc("node", "tags_filter_dropped_publications", "Publications that subscriptions skipped because of a tags filter.", inSpace)
	d.lag = m.histogram("node", "pub_sub_lag_seconds", "Age of publications when the node takes them.", lagBuckets, inSpace)
	d.broadcast = m.histogram("node", "broadcast_duration_seconds", "Time until a publication was written to all local subscribers of a loop.", broadcastBuckets, "type", inSpace)
	d.write = m.histogram("node", "publish_to_write_seconds", "Time from a publish to the write to the last of the subscribers on a loop, by clocks that are corrected.", writeBuckets, inSpace)
	d.suppressed = m.desc("broker", "publish_suppressed_count", "Publications that a broker did not deliver, because they are not new.", "reason", inSpace)
	d.mapSuppressed = m.desc("map_broker", "publish_suppressed_count", "Changes of maps that were not made because of what the map has.", "reason", inSpace)
	d.removal = m.desc("map_broker", "remove_suppressed_count", "Removals from maps that were not made because of what the map has.", "reason", inSpace)

	d.errors = m.desc("client", "num_reply_errors", "Commands that were answered with an error.", "method", "code", inSpace)
	d.unsubscribes = m.desc("client", "num_server_unsubscribes", "Subscriptions that the server ended.", "code", inSpace)
	d.disconnects = m.desc("client", "num_server_disconnects", "Connections that the server ended.", "code")
	d.commands = m.times("client", "command_duration_seconds", "Time from a command's arrival to its answer", commandBuckets, "method", inSpace)
	d.recover = m.desc("client", "recover", "Attempts to recover what was missed.", "recovered", inSpace, "has_recovered_publications")
	if m.cfg.RecoveredPublications {
		d.recovered = m.histogram("client", "recovered_publications", "Publications that a recovery returned.", recoveredBuckets, inSpace)
	}
	d.pongs = m.histogram("client", "ping_pong_duration_seconds", "Time from a ping to the client's pong.", commandBuckets, "transport")
	var own []string // labels of clients
	for _, key := range m.cfg.ClientLabels[:min(len(m.cfg.ClientLabels), observe.MaxClientLabels)] {
		own = append(own, "app_"+key)
	}
	software := append([]string{"transport", "accept_protocol", "client_name", "client_version"}, own...)
	subscriber := append([]string{"client_name", inSpace}, own...)
	d.connections = m.desc("client", "connections_accepted", "Clients that have connected.", software...)
	d.connected = m.desc("client", "connections_inflight", "Clients that are connected.", software...)
	d.subscriptions = m.desc("client", "subscriptions_accepted", "Subscriptions that were established.", subscriber...)
	d.subscribed = m.desc("client", "subscriptions_inflight", "Subscriptions that clients have.", subscriber...)
	d.refusals = m.desc("client", "refusals_total", "Limits that were reached; queue_size is that of slow clients.", "limit")

	frame := []string{"transport", "frame_type", inSpace}
	d.messagesSent = m.desc("transport", "messages_sent", "Messages for clients.", frame...)
	d.bytesSent = m.desc("transport", "messages_sent_size", "Bytes of messages for clients, before compression and framing.", frame...)
	d.messagesReceived = m.desc("transport", "messages_received", "Messages of clients.", frame...)
	d.bytesReceived = m.desc("transport", "messages_received_size", "Bytes of messages of clients, before compression and framing.", frame...)
	d.closes = m.desc("transport", "outgoing_close_count", "Connections that the transport closed with a message of its own protocol.", "transport", "code")
	return c
}

func (c *clients) turn(t *observe.Turn) {
	now := c.since()
	s := c.stripes.lock()
	defer s.Unlock()
	s.counts.turn(t, &c.clientDescs, now)
}

func (c *clients) export(out values) {
	now := c.since()
	var all tally
	c.stripes.each(func(t *tally) { all.add(t, now) })
	all.export(out, &c.clientDescs, &c.how, now)
	for _, in := range c.totals.Namespaces() {
		for e := range observe.NumEvents {
			out.counted(c.sent, c.totals.Sent(e, in), e.String(), in)
			out.counted(c.received, c.totals.Received(e, in), e.String(), in)
		}
		for a := range observe.NumActions {
			out.counted(c.actions, c.totals.Actions(a, in), a.String(), in)
		}
	}
	for e, n := range c.totals.Suppressed() {
		desc := c.suppressed
		switch e.Event {
		case observe.EventMapPublication:
			desc = c.mapSuppressed
		case observe.EventMapRemoval:
			desc = c.removal
		}
		out.count(desc, n, string(e.Reason), e.Namespace)
	}
	closes := make(map[[2]string]uint64)
	for e, n := range c.totals.Closes() {
		closes[[2]string{e.Transport, status(e.Code)}] += n
	}
	for labels, n := range closes {
		out.count(c.closes, n, labels[0], labels[1])
	}
}

type naming struct {
	names  []string // of software
	labels *observe.ClientLabels
	accept bool // accept_protocol is wanted
}

func (n *naming) connection(c connection) []string {
	accept := ""
	if n.accept && c.http > 0 {
		accept = "h" + strconv.Itoa(int(c.http))
	}
	return n.labels.Values([]string{c.transport, accept, c.agent.Name(n.names), c.agent.Version()}, c.agent)
}

func (n *naming) subscription(a observe.Agent, space string) []string {
	return n.labels.Values([]string{a.Name(n.names), space}, a)
}

type merged struct {
	labels []string
	flow
}

// merge adds a flow to the one with the same labels, which several agents may have.
func merge(list []merged, labels []string, f flow) []merged {
	for i := range list {
		if slices.Equal(list[i].labels, labels) {
			list[i].flow = list[i].plus(f)
			return list
		}
	}
	return append(list, merged{labels, f})
}

func (m *merged) export(out values, accepted, inflight *prometheus.Desc) {
	if m.came > 0 {
		out.count(accepted, m.came, m.labels...)
		out.gauge(inflight, m.left(), m.labels...)
	}
}

// Other is the label of codes that applications define.
const Other = "other"

// code of an error, a disconnect or an unsubscribe; 0 for all that applications define.
type code uint32

func codeOf(number uint32) code {
	for _, from := range [...]uint32{100, 2000, 2500, 3000, 3500} {
		if number >= from && number < from+100 {
			return code(number)
		}
	}
	return 0
}

func (c code) String() string {
	if c == 0 {
		return Other
	}
	return strconv.FormatUint(uint64(c), 10)
}

// status is the transport's own, of RFC 6455 for example, or the code of a disconnect.
func status(number uint16) string {
	if number < 1016 {
		return strconv.FormatUint(uint64(number), 10)
	}
	return codeOf(uint32(number)).String()
}

func byServer(d protocol.Disconnect) bool {
	return d.Code != 0 && d.Code != protocol.DisconnectConnectionClosed.Code
}
