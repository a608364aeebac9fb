package client

import (
	"fmt"
	"strings"
	"testing"
)

func TestAgents(t *testing.T) {
	var table agents
	js := table.add("js", "5.5")
	if table.add("js", "5.5") != js || js == 0 || table.of(js) != (agent{"js", "5.5"}) {
		t.Fatalf("js has number %d: %v", js, table.of(js))
	}
	if table.add("", "") != 0 || table.of(0) != (agent{}) {
		t.Error("a client that says nothing has a number")
	}
	long := table.add(strings.Repeat("n", 100), "")
	if got := table.of(long).name; len(got) != maxAgent {
		t.Errorf("%d bytes are kept", len(got))
	}
	var cut agents // names that end within a character
	if a, b := cut.add(strings.Repeat("n", maxAgent-1)+"é", ""), cut.add(strings.Repeat("n", maxAgent-1)+"ö", ""); a != b || len(cut.list) != 1 {
		t.Errorf("two names that are alike as far as they are kept have numbers %d and %d of %d", a, b, len(cut.list))
	}
	table.remove(js)
	if table.add("js", "5.5") != js {
		t.Error("an agent that another client has was forgotten")
	}
	table.remove(js)
	table.remove(js)
	if n := table.add("go", "1"); n != js || table.of(n) != (agent{"go", "1"}) {
		t.Errorf("the number of the agent that is gone is not used again: %d", n)
	}
	for i := range 2 * maxAgents {
		table.add(fmt.Sprint(i), "")
	}
	if len(table.list) != maxAgents || len(table.numbers) != maxAgents || table.add("one more", "") != 0 {
		t.Errorf("%d agents are known", len(table.numbers))
	}
}
