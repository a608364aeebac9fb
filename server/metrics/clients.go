package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Clients exports the errors and limits that clients meet, and the connections and subscriptions
// that the server ends. It returns the observer to configure the node with.
func (r *Registry) Clients() observe.Observer {
	c := &clientCounters{
		errors:       r.counters("client", "num_reply_errors", "Commands that were answered with an error.", "method", "code"),
		disconnects:  r.counters("client", "num_server_disconnects", "Connections that the server ended.", "code"),
		unsubscribes: r.counters("client", "num_server_unsubscribes", "Subscriptions that the server ended.", "code"),
		refusals:     r.counters("client", "refusals_total", "Limits that were reached; queue_size is that of slow clients.", "limit"),
	}
	return observe.Observer{Turn: c.turn}
}

type clientCounters struct {
	errors, disconnects, unsubscribes, refusals *prometheus.CounterVec
}

// turn is the observer's function. The events that it exports are rare, so it looks counters up.
func (c *clientCounters) turn(t *observe.Turn) {
	for _, cmd := range t.Commands {
		if cmd.Code != 0 {
			c.errors.WithLabelValues(cmd.Method.String(), number(cmd.Code)).Inc()
		}
	}
	for _, d := range t.Disconnects {
		if code := d.Disconnect.Code; code != 0 && code != protocol.DisconnectConnectionClosed.Code {
			c.disconnects.WithLabelValues(number(code)).Add(float64(d.Count))
		}
	}
	for _, u := range t.Unsubscribes {
		c.unsubscribes.WithLabelValues(number(u.Code)).Add(float64(u.Count))
	}
	for l, n := range t.Refusals {
		if n > 0 {
			c.refusals.WithLabelValues(observe.Limit(l).String()).Add(float64(n))
		}
	}
}

// number is the label of a code. All codes that applications define have the same label.
func number(code uint32) string {
	for _, from := range [...]uint32{100, 2000, 2500, 3000, 3500} {
		if code >= from && code < from+100 {
			return strconv.FormatUint(uint64(code), 10)
		}
	}
	return Other
}
