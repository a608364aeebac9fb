package postgres_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

type replicated struct {
	*database
	name    string
	standby *postgrestest.Server
	config  postgres.Config // of nodes that read from it
}

func newStandby(t *testing.T) *postgrestest.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("standbys take long to make")
	}
	standby, err := shared.Server(t).Standby()
	must(t, err)
	t.Cleanup(standby.Stop)
	return standby
}

func newReplicated(t *testing.T, standby *postgrestest.Server) *replicated {
	t.Helper()
	d := newDatabase(t)
	name := d.dsn[strings.LastIndex(d.dsn, "/")+1:]
	wait.Success(t, "the database on the standby", func() error { return standby.Do(t.Context(), name, "SELECT 1") })
	return &replicated{d, name, standby, postgres.Config{PollInterval: 10 * time.Millisecond, Replicas: []string{standby.DSN(name)}}}
}

// TestReplica has tests that pause one standby, and so take turns.
func TestReplica(t *testing.T) {
	t.Parallel()
	standby := newStandby(t)
	for name, test := range map[string]func(*testing.T, *replicated){
		"streams": testReplicaStreams, "positions": testReplicaPositions, "maps": testReplicaMaps, "subscription": testReplicaSubscription,
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplicated(t, standby)
			t.Cleanup(func() { must(t, standby.Do(context.Background(), "postgres", resume)) })
			test(t, r)
		})
	}
}

// pause stops the standby with all that is committed now.
func (r *replicated) pause() {
	r.tb.Helper()
	standby, err := pgx.Connect(r.tb.Context(), r.config.Replicas[0])
	must(r.tb, err)
	defer func() { must(r.tb, standby.Close(r.tb.Context())) }()
	var end string
	must(r.tb, r.connect().QueryRow(r.tb.Context(), "SELECT pg_current_wal_flush_lsn()::text").Scan(&end))
	is := func(condition string, args ...any) func() bool {
		return func() (ok bool) {
			must(r.tb, standby.QueryRow(r.tb.Context(), "SELECT "+condition, args...).Scan(&ok))
			return ok
		}
	}
	wait.Until(r.tb, "the standby to catch up", is("pg_last_wal_replay_lsn() >= $1::text::pg_lsn", end))
	r.do("SELECT pg_wal_replay_pause()")
	wait.Until(r.tb, "the standby to pause", is("pg_is_wal_replay_paused()"))
}

const resume = "SELECT pg_wal_replay_resume()" // does nothing if the standby is not paused

func (r *replicated) resume() { r.do(resume) }

func (r *replicated) do(sql string) {
	r.tb.Helper()
	must(r.tb, r.standby.Do(r.tb.Context(), r.name, sql))
}

func counts(b *postgres.Broker) (answers, repeats, failures float64) {
	for _, m := range b.Describe().Metrics() {
		switch m.Name {
		case "replica_reads_total":
			answers = m.Value
		case "replica_repeats_total":
			repeats = m.Value
		case "replica_failures_total":
			failures = m.Value
		}
	}
	return answers, repeats, failures
}

// byReplica reads until the standby answers.
func byReplica(tb testing.TB, b *postgres.Broker, read func()) {
	tb.Helper()
	wait.Until(tb, "an answer of the replica", func() bool {
		before, _, _ := counts(b)
		read()
		after, _, _ := counts(b)
		return after > before
	})
}

// byPrimary reads once, which the standby must not answer.
func byPrimary(tb testing.TB, b *postgres.Broker, read func()) {
	tb.Helper()
	before, _, _ := counts(b)
	read()
	if after, _, _ := counts(b); after != before {
		tb.Error("the replica has answered")
	}
}

func texts(pubs []*channel.Publication) string {
	var list []string
	for _, p := range pubs {
		list = append(list, fmt.Sprintf("%s@%d", p.Data, p.Offset))
	}
	return strings.Join(list, " ")
}

// reader reads one channel, and says what has to come.
type reader struct {
	tb testing.TB
	b  *postgres.Broker
	ch string
}

func (r reader) history(want string) broker.History {
	r.tb.Helper()
	h, err := r.b.History(r.tb.Context(), r.ch, broker.HistoryFilter{Limit: -1})
	must(r.tb, err)
	if got := texts(h.Publications); got != want {
		r.tb.Errorf("the history of %s is %q, want %q", r.ch, got, want)
	}
	return h
}

func (r reader) state(want string) channel.State {
	r.tb.Helper()
	s, err := r.b.Describe().Maps.State(r.tb.Context(), r.ch, channel.StateFilter{Limit: -1})
	must(r.tb, err)
	if got := texts(s.Entries); got != want || s.Count != len(s.Entries) {
		r.tb.Errorf("the state of %s is %q (%d), want %q", r.ch, got, s.Count, want)
	}
	return s
}

func publish(tb testing.TB, b *postgres.Broker, ch, data string) channel.StreamPosition {
	tb.Helper()
	r, err := b.Publish(tb.Context(), ch, &channel.Publication{Data: []byte(data)}, keep)
	must(tb, err)
	return r.Position
}

func change(tb testing.TB, b *postgres.Broker, ch, key, data string) {
	tb.Helper()
	_, err := b.Describe().Maps.Change(tb.Context(), ch, &channel.Publication{Key: key, Data: []byte(data)},
		channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute})
	must(tb, err)
}

// testReplicaStreams: the standby answers, and never with less than the node has written, received or read.
func testReplicaStreams(t *testing.T, r *replicated) {
	got := newEvents()
	b := r.run(r.config, got)
	must(t, b.Subscribe(t.Context(), "ch"))
	ch := reader{t, b, "ch"}
	publish(t, b, "ch", "1")
	publish(t, b, "ch", "2")
	ch.history("1@1 2@2") // any server may answer
	byReplica(t, b, func() { ch.history("1@1 2@2") })

	r.pause()
	publish(t, b, "ch", "3") // by this node
	byPrimary(t, b, func() { ch.history("1@1 2@2 3@3") })
	r.exec("SELECT cf_stream_publish('ch', '4')") // by an application
	got.want(t, "ch=1@1", "ch=2@2", "ch=3@3", "ch=4@4")
	byPrimary(t, b, func() { ch.history("1@1 2@2 3@3 4@4") })
	r.resume()
	byReplica(t, b, func() { ch.history("1@1 2@2 3@3 4@4") })

	// What leaves no row in the outbox.
	r.pause()
	must(t, b.RemoveHistory(t.Context(), "ch"))
	byPrimary(t, b, func() { ch.history("") })
	fresh := reader{t, b, "fresh"}
	top := fresh.history("").Top
	byPrimary(t, b, func() {
		if again := fresh.history("").Top; again != top || top.Epoch == "" {
			t.Errorf("%v after %v", again, top)
		}
	})
	r.resume()
	position := publish(t, b, "ch", "5")
	byReplica(t, b, func() {
		if h := ch.history("5@5"); h.Top != position {
			t.Errorf("the top is %v, want %v", h.Top, position)
		}
	})
}

// testReplicaPositions: a node that has not received anything knows what its callers know.
func testReplicaPositions(t *testing.T, r *replicated) {
	writer := r.run(postgres.Config{PollInterval: time.Hour}, newEvents())
	old := publish(t, writer, "ch", "1")
	r.config.PollInterval = time.Hour
	b := r.run(r.config, newEvents())
	ch := reader{t, b, "ch"}
	byReplica(t, b, func() { ch.history("1@1") })
	filters := func(top channel.StreamPosition) []broker.HistoryFilter {
		return []broker.HistoryFilter{
			{Since: &top}, {Since: &top, Limit: -1}, {AtLeast: top}, {AtLeast: top, Limit: 1, Reverse: true},
			{AtLeast: channel.StreamPosition{Offset: 1, Epoch: "other"}}, {Since: &channel.StreamPosition{Epoch: "other"}, Limit: -1},
		}
	}
	// What the primary says is the least from then on, so each filter needs a node that knows nothing.
	var nodes []*postgres.Broker
	for range filters(old) {
		nodes = append(nodes, r.run(r.config, newEvents()))
	}
	r.pause()
	top := publish(t, writer, "ch", "2")
	for i, f := range filters(top) {
		byPrimary(t, nodes[i], func() {
			h, err := nodes[i].History(t.Context(), "ch", f)
			must(t, err)
			if h.Top != top {
				t.Errorf("%+v: the top is %v, want %v", f, h.Top, top)
			}
		})
	}
	// This one knows of nothing newer. So its answer may be the old one, and positions come from the primary.
	byReplica(t, b, func() {
		if got := ch.history("1@1"); got.Top != old {
			t.Errorf("the top is %v, want %v", got.Top, old)
		}
	})
	if p := b.Positions(t.Context(), []string{"ch"}, 0); p[0].Err != nil || p[0].Top != top {
		t.Errorf("%+v, want %v", p, top)
	}
}

// testReplicaMaps: as testReplicaStreams, for maps.
func testReplicaMaps(t *testing.T, r *replicated) {
	got := newEvents()
	b := r.run(r.config, got)
	must(t, b.Subscribe(t.Context(), "m"))
	m := reader{t, b, "m"}
	change(t, b, "m", "a", "1")
	byReplica(t, b, func() { m.state("1@1") })
	byReplica(t, b, func() { m.history("1@1") })
	r.pause()
	change(t, b, "m", "b", "2")
	byPrimary(t, b, func() { m.state("1@1 2@2") })
	r.exec("SELECT cf_map_publish('m', 'c', '3')")
	got.want(t, "m=1@1", "m=2@2", "m=3@3")
	byPrimary(t, b, func() { m.state("1@1 2@2 3@3") })
	byPrimary(t, b, func() { m.history("1@1 2@2 3@3") })
	_, err := b.Describe().Maps.Change(t.Context(), "m", &channel.Publication{Key: "c", Removed: true}, channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute})
	must(t, err)
	byPrimary(t, b, func() { m.state("1@1 2@2") })
	r.resume()
	byReplica(t, b, func() { m.state("1@1 2@2") })
	r.pause()
	must(t, b.Describe().Maps.Clear(t.Context(), "m"))
	byPrimary(t, b, func() { m.state("") })
	r.resume()
}

// TestReplicaAway: without the standby, the primary answers.
func TestReplicaAway(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, newStandby(t))
	other := newDatabase(t)
	b := r.run(r.config, newEvents())
	ch := reader{t, b, "ch"}
	publish(t, b, "ch", "1")
	byReplica(t, b, func() { ch.history("1@1") })
	_, _, before := counts(b) // on a busy machine, the standby may have taken too long
	r.standby.Kill()
	killed := time.Now()
	for range 20 {
		ch.history("1@1")
	}
	// It is asked again after pauses of 1, 2, 4 s and so on.
	if _, _, failures := counts(b); failures <= before || failures > before+1+math.Log2(1+time.Since(killed).Seconds()) {
		t.Errorf("the standby was asked in vain %v times", failures-before)
	}
	publish(t, b, "ch", "2")
	ch.history("1@1 2@2")
	must(t, r.standby.Restart())
	byReplica(t, b, func() { ch.history("1@1 2@2") })

	// Servers that are no replicas: one that is not there, one without tables, one with the tables of another cluster.
	empty := newDatabase(t)
	stranger := other.run(postgres.Config{}, newEvents())
	publish(t, stranger, "ch", `"x"`)
	for _, dsn := range []string{"postgres://u:hush@127.0.0.1:1/x", empty.dsn, other.dsn} {
		cfg := r.config
		cfg.Replicas = []string{dsn}
		b := r.run(cfg, newEvents())
		byPrimary(t, b, func() {
			for range 10 {
				reader{t, b, "ch"}.history("1@1 2@2")
			}
		})
	}
}

// testReplicaSubscription: publications before a subscription are not delivered, so a history that is read after it must have them.
func testReplicaSubscription(t *testing.T, r *replicated) {
	writer := r.run(postgres.Config{PollInterval: time.Hour}, newEvents())
	b := r.run(r.config, newEvents())
	publish(t, writer, "ch", "1")
	byReplica(t, b, func() { reader{t, b, "ch"}.history("1@1") })
	r.pause()
	r.config.PollInterval = time.Hour
	b = r.run(r.config, newEvents()) // does not read the next row by itself
	byReplica(t, b, func() { reader{t, b, "ch"}.history("1@1") })
	publish(t, writer, "ch", "2")
	byReplica(t, b, func() { reader{t, b, "ch"}.history("1@1") }) // nothing tells that this is old
	must(t, b.Subscribe(t.Context(), "ch"))
	byPrimary(t, b, func() { reader{t, b, "ch"}.history("1@1 2@2") })
	r.resume()
	byReplica(t, b, func() { reader{t, b, "ch"}.history("1@1 2@2") })
}

// TestReplicaGap: publications around a subscription are in the history after it, or come live, though the standby
// is always behind.
func TestReplicaGap(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, newStandby(t))
	r.config.NumShards, r.config.BatchSize, r.config.PollInterval = 2, 7, 2*time.Millisecond
	writer := r.run(postgres.Config{NumShards: 2, PollInterval: time.Hour}, newEvents())
	// The standby is late by a time that suits the pace of the machine: then some of its answers count, and some do not.
	for delay := 25 * time.Millisecond; ; delay *= 2 {
		answers, repeats, failures := gap(t, r, writer, delay)
		if answers > 0 && repeats > 0 {
			return
		}
		t.Logf("%v: %v answers of the standby, %v repeated, %v failures", delay, answers, repeats, failures)
		if delay > 2*time.Second {
			t.Fatal("the standby was never asked in time, or never too late")
		}
	}
}

func gap(t *testing.T, r *replicated, writer *postgres.Broker, delay time.Duration) (answers, repeats, failures float64) {
	t.Helper()
	r.do(fmt.Sprintf("ALTER SYSTEM SET recovery_min_apply_delay = '%dms'", delay.Milliseconds()))
	r.do("SELECT pg_reload_conf()")
	const channels = 80
	for i := range channels {
		publish(t, writer, fmt.Sprint(delay, i), "0") // so that the standby knows the channel
	}
	got := newEvents()
	b := r.run(r.config, got)
	tops := map[string]uint64{}
	for i := range channels {
		ch := fmt.Sprint(delay, i)
		publish(t, writer, ch, "1")
		time.Sleep(time.Duration(i%10) * delay / 5) // the node and the standby get it meanwhile, or not
		must(t, b.Subscribe(t.Context(), ch))
		h, err := b.History(t.Context(), ch, broker.HistoryFilter{Limit: -1})
		must(t, err)
		tops[ch] = h.Top.Offset
		publish(t, writer, ch, "2")
	}
	for ended := 0; ended < channels; {
		e := got.next(t)
		if e.Pub.Offset > tops[e.ch] {
			tops[e.ch]++
			if e.Pub.Offset != tops[e.ch] {
				t.Fatalf("%s comes after %d", e, tops[e.ch]-1)
			}
		}
		if e.Pub.Offset == 3 {
			ended++
		}
	}
	return counts(b)
}
