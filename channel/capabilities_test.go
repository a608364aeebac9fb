package channel

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCapabilities(t *testing.T) {
	c, err := NewCapabilities([]Capability{
		{Channels: []string{"news", "user_42"}, Allow: RightSubscribe},
		{Channels: []string{"news"}, Allow: RightPublish},
		{Channels: []string{"chat:*", "*:public"}, Allow: RightSubscribe | RightPresence, Match: MatchWildcard},
		{Channels: []string{`^post_[\d]+$`}, Allow: RightHistory, Match: MatchRegex},
	})
	if err != nil {
		t.Fatal(err)
	}
	for ch, want := range map[string]Rights{
		"news": RightSubscribe | RightPublish, "user_42": RightSubscribe, "user_421": 0, "new": 0, "": 0,
		"chat:1": RightSubscribe | RightPresence, "chat:": RightSubscribe | RightPresence, "chat": 0, "a:b:public": RightSubscribe | RightPresence,
		"post_7": RightHistory, "post_": 0, "my_post_7": 0,
	} {
		if got := c.On(ch); got != want {
			t.Errorf("%q: %b, want %b", ch, got, want)
		}
	}
	if got := (*Capabilities)(nil).On("news"); got != 0 {
		t.Errorf("no capabilities give %b", got)
	}
}

func TestParseRights(t *testing.T) {
	if r, err := ParseRights([]string{"sub", "hst", "pub", "prs", "sub"}); r != allRights || err != nil {
		t.Errorf("%b, %v", r, err)
	}
	if r, err := ParseRights([]string{"sub", "all"}); r != 0 || err == nil || err.Error() != `right "all" is not one of sub, pub, prs, hst` {
		t.Errorf("%b, %v", r, err)
	}
}

func TestWrongCapabilities(t *testing.T) {
	for want, c := range map[string]Capability{
		"missing closing":        {Channels: []string{"(a"}, Match: MatchRegex},
		`match "Regex" is not`:   {Channels: []string{"a"}, Match: "Regex"},
		"allows unknown rights":  {Channels: []string{"a"}, Allow: 16},
		"invalid or unsupported": {Channels: []string{"(?=a)"}, Match: MatchRegex},
	} {
		if _, err := NewCapabilities([]Capability{{}, c}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "capability 1") {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// Wildcards match as the regular expression does that has .* in place of each *.
func TestWildcardsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab*")), 0, 8, -1).Draw(t, "pattern")
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 10, -1).Draw(t, "name")
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if want := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(name); wild(pattern, name) != want {
			t.Fatalf("%q and %q: not %v", pattern, name, want)
		}
	})
}

// Clients share expressions, and the last one of them takes them along.
func TestExpressionsAreShared(t *testing.T) {
	text := "^shared_[0-9]+$"
	build := func() *Capabilities {
		c, err := NewCapabilities([]Capability{{Channels: []string{text}, Match: MatchRegex, Allow: RightSubscribe}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	func() {
		if a, b := build(), build(); a.regexps[0].Regexp != b.regexps[0].Regexp {
			t.Error("two clients have two expressions")
		}
	}()
	for { // until the cleanup has run
		runtime.GC()
		if _, known := expressions.Load(text); !known {
			break
		}
	}
}

func BenchmarkCapabilities(b *testing.B) {
	var list []Capability
	for i := range 10 {
		list = append(list, Capability{Channels: []string{fmt.Sprint("channel", i)}, Allow: RightSubscribe})
	}
	exact, err := NewCapabilities(list)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("exact", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			exact.On("channel7")
		}
	})
	for i := range list {
		list[i] = Capability{Channels: []string{fmt.Sprint("channel", i, ":*")}, Match: MatchWildcard, Allow: RightSubscribe}
	}
	wildcards, err := NewCapabilities(list)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("wildcard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wildcards.On("channel7:1")
		}
	})
	for i := range list {
		list[i] = Capability{Channels: []string{fmt.Sprint("^channel", i, "_[0-9]+$")}, Match: MatchRegex, Allow: RightSubscribe}
	}
	regexps, err := NewCapabilities(list)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("regex", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			regexps.On("channel7_1")
		}
	})
}
