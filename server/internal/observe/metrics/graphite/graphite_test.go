package graphite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/porttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample has one metric of each kind.
type sample struct {
	*prometheus.Registry
	counter prometheus.Counter
	seconds prometheus.Counter
	gauge   *prometheus.GaugeVec
	summary prometheus.Summary
}

func newSample() *sample {
	s := &sample{
		Registry: prometheus.NewRegistry(),
		counter:  prometheus.NewCounter(prometheus.CounterOpts{Name: "gyro_node_messages_sent_count"}),
		seconds:  prometheus.NewCounter(prometheus.CounterOpts{Name: "process_cpu_seconds_total"}),
		gauge:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gyro_node_build"}, []string{"version", "empty"}),
		summary: prometheus.NewSummary(prometheus.SummaryOpts{
			Name: "gyro_api_command_duration_seconds", ConstLabels: prometheus.Labels{"method": "publish"},
			Objectives: map[float64]float64{0.5: 0.05, 0.999: 0.0001},
		}),
	}
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gyro_node_pub_sub_lag_seconds"})
	histogram.Observe(1)
	s.MustRegister(s.counter, s.seconds, s.gauge, s.summary, histogram)
	return s
}

// TestLines: names have dots, counters are what they have grown by, and nothing in a label ends a line.
func TestLines(t *testing.T) {
	s := newSample()
	s.counter.Add(7)
	s.seconds.Add(1.6)
	s.gauge.WithLabelValues("v1 (a;b)\nx 1 2", "").Set(1)
	s.summary.Observe(0.25)
	now := time.Unix(1700000000, 5)
	text := func(f format, before totals) (string, totals) {
		families, err := s.Gather()
		if err != nil {
			t.Fatal(err)
		}
		text, next := f.append(nil, families, before, now)
		return string(text), next
	}
	first, next := text(newFormat("centrifugo.", "höst.1:8000", false), nil)
	const at = " 1700000000\n"
	want := "" +
		"centrifugo.h_st_1:8000.gyro.api.command_duration_seconds.sum.method.publish 0.250000" + at +
		"centrifugo.h_st_1:8000.gyro.api.command_duration_seconds.count.method.publish 1" + at +
		"centrifugo.h_st_1:8000.gyro.api.command_duration_seconds.quantile.50.method.publish 0.250000" + at +
		"centrifugo.h_st_1:8000.gyro.api.command_duration_seconds.quantile.999.method.publish 0.250000" + at +
		"centrifugo.h_st_1:8000.gyro.node.build.version.v1_(a_b)_x_1_2 1.000000" + at +
		"centrifugo.h_st_1:8000.gyro.node.messages_sent_count 7" + at +
		"centrifugo.h_st_1:8000.process.cpu.seconds_total 1" + at
	if first != want {
		t.Errorf("got\n%swant\n%s", first, want)
	}
	s.counter.Add(2)
	s.seconds.Add(0.5) // 2.1 in all, of which 1 was told
	s.gauge.WithLabelValues("v1 (a;b)\nx 1 2", "").Set(math.NaN())
	s.summary.Observe(0.5)
	got, _ := text(newFormat("centrifugo", "höst.1:8000", false), next)
	for _, line := range []string{".messages_sent_count 2 ", ".cpu.seconds_total 1 ", ".sum.method.publish 0.500000 ", ".count.method.publish 1 "} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if strings.Contains(got, "build") {
		t.Errorf("NaN is no number of Graphite:\n%s", got)
	}
	tagged, _ := text(newFormat("", "n", true), totals{"n.gyro.node.messages_sent_count": 100})
	for _, line := range []string{
		"n.gyro.node.messages_sent_count 9 ", // it began anew
		"n.gyro.api.command_duration_seconds.quantile.50;method=publish 0.250000 ",
	} {
		if !strings.Contains(tagged, line) {
			t.Errorf("%q is not in\n%s", line, tagged)
		}
	}
}

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]string{0.5: "50", 0.99: "99", 0.999: "999", 0.05: "50", 0.9: "90"} {
		if got := quantile(q); got != want {
			t.Errorf("%g: %s, want %s", q, got, want)
		}
	}
}

// TestInterval: each interval has a connection of its own. What a push that failed would have told comes with the next one.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSample()
		var log bytes.Buffer
		var down atomic.Bool
		conns := make(chan net.Conn, 1)
		p := Start(Config{
			Gatherer: s, Address: "graphite:2003", Prefix: "p", Node: "n", Interval: 10 * time.Second,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Dial: func(_ context.Context, network, address string) (net.Conn, error) {
				if network != "tcp" || address != "graphite:2003" {
					t.Errorf("dials %s %s", network, address)
				}
				if down.Load() {
					return nil, errors.New("no route")
				}
				server, client := net.Pipe()
				conns <- server
				return client, nil
			},
		})
		pushed := func() string {
			t.Helper()
			data, err := io.ReadAll(<-conns)
			if err != nil {
				t.Error(err)
			}
			return string(data)
		}
		begin := time.Now()
		s.counter.Inc()
		if got := pushed(); !strings.Contains(got, "p.n.gyro.node.messages_sent_count 1 ") || time.Since(begin) != 10*time.Second {
			t.Errorf("after %s: %s", time.Since(begin), got)
		}
		s.counter.Add(3)
		down.Store(true)
		time.Sleep(25 * time.Second) // two pushes fail
		down.Store(false)
		if got := pushed(); !strings.Contains(got, "p.n.gyro.node.messages_sent_count 3 ") || time.Since(begin) != 40*time.Second {
			t.Errorf("after %s: %s", time.Since(begin), got)
		}
		s.counter.Add(5)
		ended := make(chan struct{})
		go func() { p.Shutdown(t.Context()); close(ended) }()
		if got := pushed(); !strings.Contains(got, "p.n.gyro.node.messages_sent_count 5 ") {
			t.Errorf("at the end: %s", got)
		}
		<-ended
		if text := log.String(); strings.Count(text, "cannot be pushed") != 1 || strings.Count(text, "pushed to Graphite again") != 1 || !strings.Contains(text, "no route") {
			t.Error(text)
		}
	})
}

// TestSlow: Graphite that does not read costs an interval no more than 5 s, and a shutdown no more than it has.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := Start(Config{
			Gatherer: newSample(), Node: "n", Interval: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				_, client := net.Pipe()
				return client, nil
			},
		})
		time.Sleep(15*time.Second + time.Millisecond)
		synctest.Wait()
		if !strings.Contains(log.String(), "timeout") {
			t.Errorf("logged: %s", log.String())
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if p.Shutdown(ctx); time.Since(begin) != 3*time.Second {
			t.Errorf("the shutdown took %s", time.Since(begin))
		}
	})
}

// TestTCP pushes to a server that is there, goes, and comes back.
func TestTCP(t *testing.T) {
	address := porttest.Address(t)
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan string)
	serve := func(ln net.Listener) {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(conn)
			conn.Close()
			received <- string(data)
		}
	}
	go serve(ln)
	s := newSample()
	var log bytes.Buffer
	p := Start(Config{Gatherer: s, Address: address, Node: "n", Interval: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p.stop() // the test says when
	<-p.done
	s.counter.Inc()
	push := func() string {
		done := make(chan struct{})
		go func() { p.push(t.Context()); close(done) }()
		defer func() { <-done }()
		return <-received
	}
	if got := push(); !strings.Contains(got, "n.gyro.node.messages_sent_count 1 ") {
		t.Error(got)
	}
	ln.Close()
	s.counter.Inc()
	p.push(t.Context())
	if p.outage.Err() == nil || !strings.Contains(log.String(), "key=graphite") {
		t.Errorf("without a listener: %s", log.String())
	}
	if ln, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go serve(ln)
	s.counter.Inc()
	if got := push(); !strings.Contains(got, "n.gyro.node.messages_sent_count 2 ") {
		t.Error(got)
	}
}
