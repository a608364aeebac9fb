package client

import "strings"

// agent is a client's software by the client's own words.
type agent struct{ name, version string }

const (
	// maxAgents bounds the agents that a loop knows, as clients can send any text.
	maxAgents = 4096
	// maxAgent is the bytes of a name and of a version that are kept.
	maxAgent = 64
)

// agents of a loop's clients, each kept once. A client has the number of its agent, 2 bytes; 0 is unknown.
type agents struct {
	numbers map[agent]uint16
	list    []counted // by number, less 1
	free    []uint16
}

type counted struct {
	agent
	clients int
}

// shown returns the part of a text that is kept, in valid UTF-8.
func shown(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxAgent)], "") }

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
