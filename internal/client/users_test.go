package client

import "testing"

func TestCounts(t *testing.T) {
	var c userCounts
	want := func(connections, users int) {
		t.Helper()
		if n, u := c.Totals(); n != connections || u != users {
			t.Errorf("%d connections of %d users, want %d of %d", n, u, connections, users)
		}
	}
	want(0, 0)
	for range 2 {
		if !c.Add("a", 2) || !c.Add("", 1) { // anonymous users have no limit
			t.Error("refused")
		}
	}
	if c.Add("a", 2) {
		t.Error("the limit does not count")
	}
	c.Add("b", 0)
	want(5, 3)
	c.Remove("a")
	if !c.Add("a", 2) {
		t.Error("refused")
	}
	for _, user := range []string{"a", "a", "", "", "b"} {
		c.Remove(user)
	}
	want(0, 0)
	if len(c.m) != 0 {
		t.Errorf("%v are remembered", c.m)
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		target Target
		want   bool
	}{
		{Target{}, true},
		{Target{Client: "a"}, true},
		{Target{Client: "b"}, false},
		{Target{Whitelist: []string{"b", "a"}}, false},
		{Target{Whitelist: []string{"b"}}, true},
		{Target{Client: "a", Whitelist: []string{"a"}}, false},
	} {
		if got := c.target.Match("a"); got != c.want {
			t.Errorf("%+v: %v", c.target, got)
		}
	}
}
