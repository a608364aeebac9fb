package format

import (
	"slices"
	"testing"
)

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
		if got := string(n.Append(nil, ClientChannel, "ch", hash)); got != want {
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
			name := string(n.Append(nil, ClientChannel, ch, 0))
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

// TestKeysApart: whatever two channels are called, they share no key.
func TestKeysApart(t *testing.T) {
	parts := []string{"", "meta.", ".", ":", "a", "{", "}", "data.", "1:", "$"}
	var words []string
	for _, x := range parts {
		for _, y := range parts {
			for _, z := range []string{"", "meta.", "a", ".b", "}.a"} {
				words = append(words, x+y+z)
			}
		}
	}
	slices.Sort(words)
	words = slices.Compact(words)
	for _, n := range []Names{{Prefix: "p"}, {Prefix: "p", Cluster: true}, {Prefix: "p", Cluster: true, Partitions: 3}} {
		owners := map[string]string{n.Mark("node", ""): "a node", n.Mark("node", "1"): "a node"}
		for _, tag := range []string{"", "1"} {
			history, meta := n.Sample("node", tag)
			owners[history], owners[meta] = "a node", "a node"
		}
		claim := func(key, ch string) {
			if owner, taken := owners[key]; taken && owner != ch {
				t.Errorf("%+v: key %q belongs to %q and %q", n, key, owner, ch)
			}
			owners[key] = ch
		}
		kinds := map[string]string{}
		for _, ch := range words {
			if n.Check(ch) != nil || n.CheckPresence(ch) != nil {
				continue
			}
			hash := Hash(ch)
			for _, kind := range []KeyKind{Stream, StreamMeta, List, ListMeta} {
				key := string(n.Append(nil, kind, ch, hash))
				claim(key, ch)
				if other, taken := kinds[key]; taken {
					t.Errorf("%+v: %q is of kind %s and %s", n, key, kind, other)
				}
				kinds[key] = string(kind)
			}
			for _, kind := range []KeyKind{Presence, PresenceLife, Users, UsersLife} {
				claim(n.Presence(kind, ch), ch)
			}
			for _, key := range parts {
				claim(string(n.AppendResult(nil, ch, hash, key)), ch+" with key "+key)
				claim(string(n.AppendResult(nil, ch, hash, key+".a")), ch+" with key "+key+".a")
			}
		}
	}
}

// TestUsualNames: what has no trap in it is called as Centrifugo calls it.
func TestUsualNames(t *testing.T) {
	n := Names{Prefix: "p"}
	for want, got := range map[string]string{
		"p.stream.news":           string(n.Append(nil, Stream, "news", 0)),
		"p.stream.metadata":       string(n.Append(nil, Stream, "metadata", 0)),
		"p.stream.meta.news":      string(n.Append(nil, StreamMeta, "news", 0)),
		"p.stream:meta.news":      string(n.Append(nil, Stream, "meta.news", 0)),
		"p.stream.meta.meta.news": string(n.Append(nil, StreamMeta, "meta.news", 0)),
		"p.list:meta.news":        string(n.Append(nil, List, "meta.news", 0)),
		"p.client.meta.news":      string(n.Append(nil, ClientChannel, "meta.news", 0)),
		"p.result.news.1-2":       string(n.AppendResult(nil, "news", 0, "1-2")),
		"p.result.a.b.c":          string(n.AppendResult(nil, "a.b", 0, "c")),
		"p.result:1:a.b.c":        string(n.AppendResult(nil, "a", 0, "b.c")),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
