package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// When a replica of a Cluster takes over, rueidis looks for the new owner of the slots up to a second later. So dialNode
// asks other nodes for the owner of the slots of a node that it cannot reach.

// owned has a slot of each node, by its address. Former slots stay, because rueidis may still connect to that node.
type owned map[string]int64

const maxOwned = 4096

// noteOwners returns errors of the connection only.
func (c *Client) noteOwners(d *resp.Dialog) error {
	var refused *resp.ErrorReply
	nodes, err := d.Do("CLUSTER", "NODES")
	if errors.As(err, &refused) {
		return nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned == nil || len(c.owned) > maxOwned {
		c.owned = make(owned)
	}
	for _, r := range rangesIn(string(nodes.Text), d) {
		c.owned[r.address] = r.from
	}
	return nil
}

func (c *Client) dialNode(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	raw, err := c.dial(ctx, address, dialer, config)
	if err == nil || !c.cluster {
		return raw, err
	}
	if successor := c.successor(ctx, address); successor != "" {
		return c.dial(ctx, successor, dialer, config)
	}
	return nil, err
}

// successor returns the node that has the slots of another one, or "".
func (c *Client) successor(ctx context.Context, address string) string {
	c.mu.Lock()
	slot, known := c.owned[address]
	var others []string
	for other := range c.owned {
		if other != address {
			others = append(others, other)
		}
	}
	c.mu.Unlock()
	if !known {
		return ""
	}
	for _, other := range others {
		if owner, err := c.askOwner(ctx, other, slot); err == nil && owner != address {
			return owner
		}
	}
	return ""
}

func (c *Client) askOwner(ctx context.Context, node string, slot int64) (string, error) {
	ctx, cancel := answerWithin(ctx, c.askTimeout())
	defer cancel()
	d, err := c.login(ctx, node, c.opts.TLS, c.opts.User, c.opts.Password, "")
	if err != nil {
		return "", err
	}
	defer d.Close()
	var nodes resp.Frame
	err = within(ctx, d, func() (err error) {
		nodes, err = d.Do("CLUSTER", "NODES")
		return err
	})
	if err != nil {
		return "", err
	}
	for _, r := range rangesIn(string(nodes.Text), d) {
		if r.from <= slot && slot <= r.to {
			return r.address, nil
		}
	}
	return "", fmt.Errorf("%s knows no owner of slot %d", node, slot)
}

// rangesIn reads CLUSTER NODES: ID, host:port@port, flags, five more fields, and slots. A node may leave out its own
// host.
func rangesIn(text string, asked net.Conn) (ranges []slotRange) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "master") {
			continue
		}
		address, _, _ := strings.Cut(fields[1], "@")
		if strings.HasPrefix(address, ":") {
			host, _, err := net.SplitHostPort(asked.RemoteAddr().String())
			if err != nil {
				continue
			}
			address = net.JoinHostPort(host, address[1:])
		}
		for _, slots := range fields[8:] {
			if from, to, ok := parseSlots(slots); ok {
				ranges = append(ranges, slotRange{from, to, address})
			}
		}
	}
	return ranges
}

// parseSlots reads 5 or 5-7, but not slots that migrate, which are in brackets and repeated.
func parseSlots(text string) (from, to int64, ok bool) {
	low, high, found := strings.Cut(text, "-")
	if !found {
		high = low
	}
	from, err1 := strconv.ParseInt(low, 10, 64)
	to, err2 := strconv.ParseInt(high, 10, 64)
	return from, to, err1 == nil && err2 == nil
}
