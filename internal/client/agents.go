package client

import "strings"

// agent is a client's software by the client's own words.
type agent struct{ name, version string }

const (
	// maxAgents is how many agents of connected clients a loop knows at a time. Clients can send any text, so there
	// must be a limit.
	maxAgents = 4096
	// maxAgent is how many bytes of a name and of a version are kept.
	maxAgent = 64
)

// agents are the agents of a loop's clients, each kept once. A client has the number of its agent, which costs it 2
// bytes; 0 stands for agents that are not known.
type agents struct {
	numbers map[agent]uint16
	list    []counted // by number, less 1
	free    []uint16
}

type counted struct {
	agent
	clients int
}

// shown returns as much of a text as is kept, in valid UTF-8.
func shown(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxAgent)], "") }

// add returns the number for one more client.
func (t *agents) add(name, version string) uint16 {
	a := agent{shown(name), shown(version)}
	if a == (agent{}) {
		return 0
	}
	if n, ok := t.numbers[a]; ok {
		t.list[n-1].clients++
		return n
	}
	// The texts may lie in a request with more.
	a = agent{strings.Clone(a.name), strings.Clone(a.version)}
	var n uint16
	switch last := len(t.free) - 1; {
	case last >= 0:
		n, t.free = t.free[last], t.free[:last]
	case len(t.list) == maxAgents:
		return 0
	default:
		if t.numbers == nil {
			t.numbers = make(map[agent]uint16)
		}
		t.list = append(t.list, counted{})
		n = uint16(len(t.list))
	}
	t.numbers[a], t.list[n-1] = n, counted{a, 1}
	return n
}

// remove undoes an add.
func (t *agents) remove(n uint16) {
	if n == 0 {
		return
	}
	c := &t.list[n-1]
	if c.clients--; c.clients == 0 {
		delete(t.numbers, c.agent)
		*c = counted{}
		t.free = append(t.free, n)
	}
}

func (t *agents) of(n uint16) agent {
	if n == 0 {
		return agent{}
	}
	return t.list[n-1].agent
}
