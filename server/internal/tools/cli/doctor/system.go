package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net"
	"strconv"
	"strings"
	"syscall"
)

const (
	wantFiles   = 65536 // descriptors: one per connection
	wantBacklog = 4096  // connections that wait for accept
	wantPorts   = 28000 // local ports, for connections to one address of a backend
	pageSize    = 4096
	wantMemory  = 1 << 30 // of sockets, bytes
	mostPerSlot = 2       // connections for each place in the kernel's table of them
	mostPlaces  = 1 << 24 // that tcp_child_ehash_entries may ask for
)

func (d *doctor) limits(context.Context) {
	const area = "limits"
	if d.Proc == nil {
		d.report(area, OK, "", "they are not examined on this system")
		return
	}
	if soft, hard, ok := d.files(); ok {
		if soft < wantFiles && hard < wantFiles {
			d.report(area, Warn, "LimitNOFILE= in the systemd unit, or ulimit -n", "this process may open %d files, at most %d: each connection needs one", soft, hard)
		} else {
			d.report(area, OK, "", "this process may open %d files", max(soft, hard))
		}
	}
	d.atLeast(area, "net.core.somaxconn", 0, wantBacklog, "connections that come faster than they are accepted are refused")
	if low, high, ok := d.sysctls("net.ipv4.ip_local_port_range"); ok {
		if high-low < wantPorts {
			d.report(area, Warn, "sysctl -w net.ipv4.ip_local_port_range='1024 65535'", "net.ipv4.ip_local_port_range has %d ports, which bounds connections to each backend and from each proxy in front", high-low)
		} else {
			d.report(area, OK, "", "net.ipv4.ip_local_port_range has %d ports", high-low)
		}
	}
	d.atLeast(area, "net.ipv4.tcp_mem", 2, wantMemory/pageSize, "pages are all that sockets may hold: beyond that, connections stall")
	limit, there := d.sysctl("net.netfilter.nf_conntrack_max", 0)
	used, _ := d.sysctl("net.netfilter.nf_conntrack_count", 0)
	switch {
	case !there:
	case limit < wantFiles || used > limit*8/10:
		d.report(area, Warn, "sysctl -w net.netfilter.nf_conntrack_max=1048576", "the firewall tracks %d of at most %d connections: others are dropped without a word", used, limit)
	default:
		d.report(area, OK, "", "the firewall tracks %d of at most %d connections", used, limit)
	}
	d.table(area)
}

// table: the kernel looks up the connection of each segment in its table, and goes through all that share a place.
// Without client.connection_limit, the number is unknown. Linux before 6.1 does not tell the size.
func (d *doctor) table(area string) {
	places, ok := d.sysctl("net.ipv4.tcp_ehash_entries", 0)
	if places < 0 { // the table of the host, which this network namespace shares
		places = -places
	}
	if !ok || places <= 0 {
		return
	}
	conns := int64(d.Config.Client.ConnectionLimit)
	if _, limit, known := d.files(); known {
		conns = min(conns, limit)
	}
	if conns <= mostPerSlot*places {
		d.report(area, OK, "", "the kernel's table of TCP connections has %d places, enough for %d connections", places, mostPerSlot*places)
		return
	}
	want := min(int64(1)<<bits.Len64(uint64(conns-1)), mostPlaces)
	d.report(area, Warn, fmt.Sprintf("boot the kernel with thash_entries=%d; or, for a network namespace of its own, sysctl -w net.ipv4.tcp_child_ehash_entries=%d in the parent before the namespace is made", want, want),
		"the kernel's table of TCP connections has %d places for the %d that client.connection_limit and the open files allow: to look up the connection of each segment takes a noticeable part of the CPU", places, conns)
}

func (d *doctor) files() (soft, hard int64, ok bool) {
	text, err := fs.ReadFile(d.Proc, "self/limits")
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "Max open files"); found {
			fields := strings.Fields(rest)
			if len(fields) < 2 {
				return 0, 0, false
			}
			return number(fields[0]), number(fields[1]), true
		}
	}
	return 0, 0, false
}

// number: a text that is not a number means no limit.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return n
}

func (d *doctor) sysctl(name string, field int) (int64, bool) {
	text, err := fs.ReadFile(d.Proc, "sys/"+strings.ReplaceAll(name, ".", "/"))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) <= field {
		return 0, false
	}
	return number(fields[field]), true
}

func (d *doctor) sysctls(name string) (first, second int64, ok bool) {
	first, one := d.sysctl(name, 0)
	second, two := d.sysctl(name, 1)
	return first, second, one && two
}

func (d *doctor) atLeast(area, name string, field int, want int64, why string) {
	switch n, ok := d.sysctl(name, field); {
	case !ok:
	case n < want:
		d.report(area, Warn, "sysctl -w "+name+", at least "+strconv.FormatInt(want, 10), "%s is %d: %s", name, n, why)
	default:
		d.report(area, OK, "", "%s is %d", name, n)
	}
}

func (d *doctor) ports(ctx context.Context) {
	const area = "ports"
	c := d.Config
	h := &c.HTTPServer
	port := strconv.Itoa(h.Port)
	addresses := []struct{ keys, at string }{{"http_server.address, http_server.port", net.JoinHostPort(strings.Trim(h.Address, "[]"), port)}}
	if h.InternalAddress != "" || h.InternalPort != "" {
		at, on := h.InternalAddress, h.InternalPort
		if at == "" {
			at = h.Address
		}
		if on == "" {
			on = port
		}
		if internal := net.JoinHostPort(strings.Trim(at, "[]"), on); internal != addresses[0].at {
			addresses = append(addresses, struct{ keys, at string }{"http_server.internal_address, http_server.internal_port", internal})
		}
	}
	if c.GRPCAPI.Enabled {
		addresses = append(addresses, struct{ keys, at string }{"grpc_api.address, grpc_api.port", net.JoinHostPort(c.GRPCAPI.Address, strconv.Itoa(c.GRPCAPI.Port))})
	}
	if c.UniGRPC.Enabled {
		addresses = append(addresses, struct{ keys, at string }{"uni_grpc.address, uni_grpc.port", net.JoinHostPort(c.UniGRPC.Address, strconv.Itoa(c.UniGRPC.Port))})
	}
	for _, a := range addresses {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", a.at)
		switch {
		case err == nil:
			_ = ln.Close() // it was only to see whether the address is free
			d.report(area, OK, "", "%s is free", a.at)
		case errors.Is(err, syscall.EADDRINUSE):
			d.report(area, Warn, "nothing, if it is this server that runs already; else stop what does, or change "+a.keys, "%s is in use", a.at)
		default:
			d.report(area, Fail, "change "+a.keys+", or the rights of the process", "%v", err)
		}
	}
}
