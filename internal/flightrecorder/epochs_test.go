package flightrecorder

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
)

// told are the new epochs that a query selects, a line each.
func told(r *Recorder, q inspect.Query) string {
	var lines []string
	if q.Limit == 0 {
		q.Limit = 100
	}
	for _, e := range r.Read(&q).Events {
		if e.Kind == inspect.NewEpoch {
			lines = append(lines, e.Channel+" "+e.What+": "+e.Text+e.Key)
		}
	}
	return strings.Join(lines, "\n")
}

// However many subscribers notice that a stream has another epoch, the node records it once, and once more
// when somebody notices it later. Epochs that are not known are none.
func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(1, 2)
		e := r.Epochs()
		for range 3 {
			if !e.Compare(ByPublication, "news", "a", "b") {
				t.Error("not another epoch")
			}
		}
		for _, same := range [][2]string{{"a", "a"}, {"", "b"}, {"a", ""}} {
			if e.Compare(ByCheck, "other", same[0], same[1]) {
				t.Errorf("%q is another epoch than %q", same[1], same[0])
			}
		}
		e.Compare(ByCheck, "sport", "x", "b")
		if text := e.Recovered("news", channel.StreamPosition{Epoch: "a"}, channel.StreamPosition{Epoch: "b"}); text != inspect.Anew {
			t.Error(text)
		}
		if text := e.Recovered("news", channel.StreamPosition{Epoch: "b", Offset: 1}, channel.StreamPosition{Epoch: "b", Offset: 9}); text != "" {
			t.Error(text)
		}
		want := "news publication: epoch a became b\nsport check: epoch x became b"
		if got := told(r, inspect.Query{}); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		time.Sleep(time.Minute)
		e.Recovered("news", channel.StreamPosition{Epoch: "a"}, channel.StreamPosition{Epoch: "b"})
		if got := told(r, inspect.Query{Channel: "news"}); got != "news publication: epoch a became b\nnews recovery: epoch a became b" {
			t.Errorf("a minute later\n%s", got)
		}
	})
}

// The new epoch of a channel comes if everything is asked for, or this channel; if somebody is asked for, only
// with the events of nodes.
func TestEpochsAreSelected(t *testing.T) {
	r := New(1, 1)
	r.Loop(0).Add(1, &Record{Kind: inspect.Subscribed, User: "42", Channel: "news"})
	r.Node().Lost()
	r.Epochs().Compare(ByCheck, "news", "a", "b")
	for q, want := range map[inspect.Query]string{
		{}:                             "subscribed lost new_epoch",
		{Channel: "news"}:              "subscribed new_epoch",
		{Channel: "sport"}:             "",
		{Channel: "news", Nodes: true}: "subscribed lost new_epoch",
		{User: "42"}:                   "subscribed",
		{User: "42", Nodes: true}:      "subscribed lost",
		{User: "42", Channel: "news"}:  "subscribed",
		{User: "42", Channel: "news", Nodes: true}:                        "subscribed lost new_epoch",
		{User: "43", Channel: "news", Nodes: true}:                        "lost new_epoch",
		{Client: "00000000-0000-4000-8000-000000000000", Channel: "news"}: "",
	} {
		q.Limit = 10
		var kinds []string
		for _, e := range r.Read(&q).Events {
			kinds = append(kinds, e.Kind.String())
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%+v selects %q, want %q", q, got, want)
		}
	}
}

// Epochs of any length are one text, which is cut like all others.
func TestLongEpochs(t *testing.T) {
	r := New(1, 1)
	r.Epochs().Compare(ByCheck, strings.Repeat("c", 300), strings.Repeat("é", 300), strings.Repeat("b", 300))
	got := r.Read(&inspect.Query{Limit: 1}).Events[0]
	if want := "epoch " + strings.Repeat("é", 50) + " became " + strings.Repeat("b", 100); got.Text != want || len(got.Text) > maxText || len(got.Channel) != maxText {
		t.Errorf("%+v", got)
	}
}

// Without a recorder, the comparison alone is made.
func TestEpochsOff(t *testing.T) {
	e := New(0, 1).Epochs()
	if e != nil || !e.Compare(ByCheck, "ch", "a", "b") || e.Compare(ByCheck, "ch", "a", "a") {
		t.Error("off")
	}
}

func TestEpochsAllocs(t *testing.T) {
	e := New(1, 1).Epochs()
	if n := testing.AllocsPerRun(10_000, func() { e.Compare(ByPublication, "news:sport", "aaaaaaaa", "bbbbbbbb") }); n > 0 {
		t.Errorf("%v allocations per subscriber that notices", n)
	}
}

// BenchmarkNewEpoch is a record as Compare makes it, BenchmarkSameEpoch what all further subscribers pay.
func BenchmarkNewEpoch(b *testing.B) {
	r := New(8<<20, 2)
	e := Record{Kind: inspect.NewEpoch, Channel: "news:sport", What: ByCheck, Text: "aaaaaaaa", Key: "bbbbbbbb"}
	b.ReportAllocs()
	for i := range b.N {
		r.Node().Add(int64(i), &e)
	}
}

func BenchmarkSameEpoch(b *testing.B) {
	e := New(8<<20, 2).Epochs()
	b.ReportAllocs()
	for b.Loop() {
		e.Compare(ByCheck, "news:sport", "aaaaaaaa", "bbbbbbbb")
	}
}
