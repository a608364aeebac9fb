// Package plan gives each connection of a run a channel, an encoding, a load process and a node. It is computed from
// three numbers, so all processes agree without telling each other.
package plan

import (
	"fmt"
	"math/big"
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

// Recoverable channels have a history.
func (c Class) Recoverable() bool { return c != Own }

const crowd = 10_000

// mostRoom and mostOne bound classes that cost Redis operations all the time: presence, and positions of channels with
// one subscriber each.
const (
	mostRoom = 10_000
	mostOne  = 20_000
)

// Channel is a channel of the plan.
type Channel uint32

const numberBits = 28

// At returns the nth channel of a class.
func At(c Class, n int) Channel { return Channel(c)<<numberBits | Channel(n) }

func (c Channel) Class() Class { return Class(c >> numberBits) }

func (c Channel) Number() int { return int(c & (1<<numberBits - 1)) }

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

// Plan is the plan of a run. Connections are numbered from 0.
type Plan struct {
	Conns, Nodes, Loads int

	members  [Classes]int // connections
	channels [Classes]int
	prime    uint64 // of mix: 2 modulo 3, and not below the number of connections in groups
}

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
	for p.prime = uint64(groups); p.prime%3 != 2 || !big.NewInt(int64(p.prime)).ProbablyPrime(0); p.prime++ {
	}
	return p, nil
}

// mix shuffles n things without a rule, so that the subscribers of a channel are on as many nodes as chance has it.
// Cubes modulo such a prime are all numbers below it, each once; cubes that are too large are cubed again.
func (p *Plan) mix(i, n int) int {
	x := uint64(i)
	for {
		x = x * x % p.prime * x % p.prime
		if x < uint64(n) {
			return int(x)
		}
	}
}

func (p *Plan) Channels(c Class) int { return p.channels[c] }

func (p *Plan) Members(c Class) int { return p.members[c] }

func (p *Plan) Subscribers(ch Channel) int {
	c := ch.Class()
	n := p.members[c] / p.channels[c]
	if ch.Number() < p.members[c]%p.channels[c] {
		n++
	}
	return n
}

// Channel of a connection. Those with even numbers have one of their own.
func (p *Plan) Channel(conn int) Channel {
	groups := p.Conns / 2
	if conn%2 == 0 {
		return At(Own, conn/2)
	}
	rank := p.mix(conn/2, groups)
	for _, c := range [...]Class{One, Hundred, Room, Crowd} {
		if rank < p.members[c] {
			return At(c, rank%p.channels[c])
		}
		rank -= p.members[c]
	}
	panic("unreachable: the classes have all connections")
}

// Binary tells whether a connection speaks Protobuf: every second pair does.
func (p *Plan) Binary(conn int) bool { return conn/2%2 == 1 }

// Range returns the connections of a load process: from from on, below to.
func (p *Plan) Range(load int) (from, to int) {
	return load * p.Conns / p.Loads, (load + 1) * p.Conns / p.Loads
}

const near = 8

// Near is how many load processes have connections to a node: 8, or all if there are fewer.
func (p *Plan) Near() int { return min(near, p.Loads) }

// Home returns the node of a connection at first. Few load processes have connections to a node, an equal part each:
// when it fails, each has some thousand clients to bring back, and keeps its part of a processor's cache; and no single
// one has them all. A process's connections to a node have consecutive numbers, and processes begin with different
// nodes: so while all connect one after the other, a process keeps a node busy, and is not woken for each answer.
func (p *Plan) Home(conn int) int {
	load := ((conn+1)*p.Loads - 1) / p.Conns
	from, to := p.Range(load)
	n := to - from
	return (load*n + (conn-from)*p.Near()) * p.Nodes / (p.Loads * n) % p.Nodes
}
