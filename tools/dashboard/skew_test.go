package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/cluster/control"
)

// skewed: a node on a machine whose clock is wrong.
func skewed(t *testing.T, c *cluster) {
	const ahead = 2 * time.Second
	proxy := newClockProxy(t, c.redis.Addr(), ahead)
	of := target{Cluster: "production", Instance: "c"}
	engine := maps.Clone(c.configuration(new(member), "gyro")["engine"].(config))
	redis := maps.Clone(engine["redis"].(config))
	redis["address"] = []string{"redis://" + proxy}
	engine["redis"] = redis
	before := c.look()
	m := c.start(of, "gyro", config{"engine": engine})
	const skew = "gyro_node_clock_skew_seconds"
	var with look
	wait.Until(t, "the skew of one node alone", func() bool { // on a busy machine others may seem to have one for a moment
		with = c.look(m)
		return sum(with[of], skew) > ahead.Seconds()-0.5 &&
			!slices.ContainsFunc(c.nodes, func(m *member) bool { return math.Abs(sum(with[m.target], skew)) > 0.5 })
	})
	c.shows(func(f *film) { f.still(before, quiet) }, func(f *film) { f.still(with, 6*time.Minute) }, "GyroClockSkew")
}

// newClockProxy starts a proxy to a Redis, behind which a node seems to be on a machine whose clock is ahead of the others': the times
// that the node sends are later, and those that it gets are earlier.
func newClockProxy(t *testing.T, redis string, ahead time.Duration) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			node, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", redis)
			if err != nil {
				node.Close()
				continue
			}
			conns.Go(func() { shiftTimes(server, node, ahead) })
			conns.Go(func() { shiftTimes(node, server, -ahead) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait() // the nodes have ended
	})
	return l.Addr().String()
}

// shiftTimes copies what one end of a connection to Redis sends to the other, with other times in the signs of life of nodes.
func shiftTimes(to, from net.Conn, by time.Duration) {
	defer to.Close()
	defer from.Close()
	in, out := bufio.NewReader(from), bufio.NewWriter(to)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		size, err := strconv.Atoi(line[1:max(1, len(line)-2)])
		if line[0] != '$' || err != nil || size < 0 {
			_, err = out.WriteString(line)
		} else {
			text := make([]byte, size+2) // and the end of the line
			if _, err = io.ReadFull(in, text); err == nil {
				text = shifted(text[:size], by)
				_, err = fmt.Fprintf(out, "$%d\r\n%s\r\n", len(text), text)
			}
		}
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			return
		}
	}
}

// shifted returns a message with another time if it is a sign of life that was just made.
func shifted(message []byte, by time.Duration) []byte {
	var c control.Command
	if err := c.UnmarshalProto(message); err != nil || c.Node == nil {
		return message
	}
	if age := time.Since(time.Unix(0, c.Node.Time)); age < -time.Minute || age > time.Minute {
		return message
	}
	c.Node.Time += int64(by)
	return c.AppendProto(nil)
}
