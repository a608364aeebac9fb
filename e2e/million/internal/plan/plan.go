// Package plan says who is who in a run: which channel each connection subscribes to, over which encoding, from which load process
// and to which node. It is computed from three numbers, so that all processes of a run agree without telling each other.
package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Class is a kind of channel, by its number of subscribers. Each is a namespace of the server.
type Class uint8

// The classes. Half of the connections are in Own.
const (
	Own     Class = iota // one subscriber, no history
	One                  // one subscriber
	Hundred              // 100 subscribers
	Room                 // 100 subscribers, with presence
	Crowd                // 10,000 subscribers
	Classes
)

var names = [Classes]string{"own", "one", "hundred", "room", "crowd"}

func (c Class) String() string { return names[c] }

// Recoverable tells whether channels of the class have a history, from which clients that come back get what they missed.
func (c Class) Recoverable() bool { return c != Own }

// crowd is the number of subscribers of the largest channels, if there are enough connections.
const crowd = 10_000

// mostRoom and mostOne bound the connections in these classes: presence and the positions of channels with one subscriber each cost
// Redis operations all the time.
const (
	mostRoom = 10_000
	mostOne  = 20_000
)

// Channel is a channel of the plan.
type Channel uint32

const numberBits = 28

// At returns the nth channel of a class.
func At(c Class, n int) Channel { return Channel(c)<<numberBits | Channel(n) }

// Class of the channel.
func (c Channel) Class() Class { return Class(c >> numberBits) }

// Number of the channel within its class, from 0.
func (c Channel) Number() int { return int(c & (1<<numberBits - 1)) }

// String is the channel's name.
func (c Channel) String() string { return names[c.Class()] + ":" + strconv.Itoa(c.Number()) }

// Parse returns the channel with a name; false if no plan has it.
func Parse(name string) (Channel, bool) {
	class, number, _ := strings.Cut(name, ":")
	for i, n := range names {
		if n == class {
			v, err := strconv.ParseUint(number, 10, numberBits)
			return At(Class(i), int(v)), err == nil
		}
	}
	return 0, false
}

// Plan is that of a run. Connections are numbered from 0.
type Plan struct {
	Conns, Nodes, Loads int

	members  [Classes]int // connections
	channels [Classes]int
	stride   int // spreads the classes over the connections in groups
}

// New returns the plan for so many connections, nodes and load processes.
func New(conns, nodes, loads int) (*Plan, error) {
	if conns < 100 || conns >= 1<<numberBits || nodes < 1 || loads < 1 || loads > conns {
		return nil, fmt.Errorf("no plan for %d connections, %d nodes and %d load processes: at least 100 connections, and one for each process", conns, nodes, loads)
	}
	p := &Plan{Conns: conns, Nodes: nodes, Loads: loads}
	groups := conns / 2
	p.members[Own] = conns - groups
	p.members[Crowd] = groups / 2
	if n := groups / 2 / crowd; n > 0 {
		p.members[Crowd] = n * crowd
	}
	p.members[Room] = min(mostRoom, groups/10)
	p.members[One] = min(mostOne, groups/10)
	p.members[Hundred] = groups - p.members[Crowd] - p.members[Room] - p.members[One]
	for class, size := range [Classes]int{1, 1, 100, 100, crowd} {
		p.channels[class] = max(1, p.members[class]/size)
	}
	for p.stride = int(float64(groups) * 0.618); gcd(p.stride, groups) != 1; p.stride++ {
	}
	return p, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Channels returns how many channels a class has.
func (p *Plan) Channels(c Class) int { return p.channels[c] }

// Members returns how many connections are in a class.
func (p *Plan) Members(c Class) int { return p.members[c] }

// Subscribers returns how many connections are in a channel.
func (p *Plan) Subscribers(ch Channel) int {
	c := ch.Class()
	n := p.members[c] / p.channels[c]
	if ch.Number() < p.members[c]%p.channels[c] {
		n++
	}
	return n
}

// Channel returns the channel of a connection. Connections with even numbers have one of their own.
func (p *Plan) Channel(conn int) Channel {
	groups := p.Conns / 2
	if conn%2 == 0 {
		return At(Own, conn/2)
	}
	rank := int(uint64(conn/2) * uint64(p.stride) % uint64(groups))
	for _, c := range [...]Class{One, Hundred, Room, Crowd} {
		if rank < p.members[c] {
			return At(c, rank%p.channels[c])
		}
		rank -= p.members[c]
	}
	panic("unreachable: the classes have all connections")
}

// Binary tells whether a connection speaks Protobuf, as every second pair of them does.
func (p *Plan) Binary(conn int) bool { return conn/2%2 == 1 }

// Range returns the connections of a load process: those from from on, below to.
func (p *Plan) Range(load int) (from, to int) {
	return load * p.Conns / p.Loads, (load + 1) * p.Conns / p.Loads
}

// Home returns the node that a connection goes to first. Each load process has connections to all nodes, an equal part to each: when a
// node fails, all of them have a few clients to bring back, and none has many. The connections of a load process to a node have
// consecutive numbers, and processes begin with different nodes. So while all connect one connection after the other, a process keeps a
// node busy, and is not woken for each answer.
func (p *Plan) Home(conn int) int {
	load := ((conn+1)*p.Loads - 1) / p.Conns
	from, to := p.Range(load)
	return (load*p.Nodes/p.Loads + (conn-from)*p.Nodes/(to-from)) % p.Nodes
}
