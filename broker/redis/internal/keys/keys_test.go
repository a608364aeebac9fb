package keys

import "testing"

func TestNames(t *testing.T) {
	for want, n := range map[string]Names{
		"p.client.ch":     {Prefix: "p"},
		"p.client.{ch}":   {Prefix: "p", Cluster: true},
		"p.client.{2}.ch": {Prefix: "p", Cluster: true, Partitions: 3},
	} {
		hash := uint64(0)
		for n.Partitions > 0 && n.Partition(hash) != 2 {
			hash = hash*31 + 7
		}
		if got := string(n.Append(nil, Client, "ch", hash)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := Part(want, "ch"); got != "ch" {
			t.Errorf("channel %q in %q", got, want)
		}
		if len(want) > n.Size("ch") {
			t.Errorf("%q is longer than expected", want)
		}
	}
	// A brace at the end may be the channel's.
	plain, cluster := Names{Prefix: "p"}, Names{Prefix: "p", Cluster: true}
	for _, ch := range []string{"}", "a}", "{a}", "{}", "a{b}", ""} {
		for _, n := range []Names{plain, cluster} {
			name := string(n.Append(nil, Client, ch, 0))
			if got := Part(name, ch); got != ch {
				t.Errorf("channel %q in %q, want %q", got, name, ch)
			}
		}
		refused := cluster.Check(ch) != nil
		if want := ch == "" || ch[0] == '}'; refused != want || plain.Check(ch) != nil {
			t.Errorf("channel %q is refused: %v", ch, refused)
		}
	}
}
