//go:build linux

package million

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
)

// standArgument has the test's binary run a small stand until it is killed.
const standArgument = "stand"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case LoadArgument:
			if err := Load(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case standArgument:
			_, err := Run(context.Background(), Options{
				Conns: 200, Nodes: 1, Shards: 1, Idle: time.Hour, Step: time.Second / 10, Phases: []string{"idle"}, Out: os.Args[2], Gyro: os.Args[3], Self: os.Args[0], View: os.Stdout,
			})
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(rig.Run(m))
}

func options(t *testing.T) Options {
	t.Helper()
	gyro, err := rig.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Gyro: gyro, Self: os.Args[0], Out: t.TempDir()}
}

// children returns the processes of another one that have not ended.
func children(parent int) (list []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range files {
		stat, _ := os.ReadFile(file) // it may have ended
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // the pattern says so
			list = append(list, pid)
		}
	}
	return list
}

// TestStand is a whole run with 20,000 connections: all are there, all pings are answered, nothing is lost, and no
// process is left.
func TestStand(t *testing.T) {
	o := options(t)
	var view logtest.Buffer
	o.Conns, o.Nodes, o.Shards, o.Loads = 20_000, 4, 2, 2
	o.Idle, o.Step, o.Rates, o.Ping, o.Drain, o.View = 12*time.Second, time.Second, 2, 10*time.Second, time.Second, &view
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, view.String())
	}
	t.Log(r.Text())
	if n, ok := r.Find("connect", "connections, all subscribed"); n != 20_000 || !ok {
		t.Errorf("%v connections", n)
	}
	if n, _ := r.Find("idle", "pings answered"); n < 20_000 {
		t.Errorf("%v pings were answered within 12 s, which come every 10 s", n)
	}
	if cut, _ := r.Find("idle", "cut meanwhile"); cut > 0 || !r.Plain.OK() || !r.Recoverable.OK() || r.Unrecovered > 0 {
		t.Errorf("cut: %v; told: %d; books: %+v %+v", r.Cuts, r.Unrecovered, r.Recoverable, r.Plain)
	}
	pings, _ := r.Find("kill", "pings answered meanwhile")
	if cut, ok := r.Find("kill", "cut meanwhile"); pings < 40_000 || cut > 0 || !ok {
		t.Errorf("%v pings were answered and %v connections cut before the first node failed", pings, cut)
	}
	for _, phase := range []string{"kill", "drain", "roll"} {
		left, _ := r.Find(phase, "clients that had to leave")
		if back, _ := r.Find(phase, "came back"); left < 4000 || back != left {
			t.Errorf("%s: %v clients had to leave, %v are back", phase, left, back)
		}
	}
	for _, phase := range []string{"shard", "slow"} {
		if n, _ := r.Find(phase, "channels of the shard: publications"); n == 0 {
			t.Errorf("%s: nothing was published", phase)
		}
	}
	if n, _ := r.Find("shard", "channels of the shard: requests tried again"); n == 0 {
		t.Error("no publication to a shard that was killed was tried again")
	}
	// A second of 2,000 and more publications with one subscriber, and so on, twice each.
	if r.Recoverable.Received < 20_000 {
		t.Errorf("%d messages were delivered", r.Recoverable.Received)
	}
	// The model says what the run was like, but for Redis, whose commands vary from second to second.
	text, err := Predict(filepath.Join(o.Out, "report.json"), filepath.Join(o.Out, "report.json"), 0, 0, 0)
	if err != nil || !strings.Contains(text, "20000 connections, 4 nodes") || strings.Count(text, "measured") < 6 {
		t.Errorf("%s %v", text, err)
	}
	for _, name := range []string{"report.txt", "report.json", "report.html"} {
		if info, err := os.Stat(filepath.Join(o.Out, name)); err != nil || info.Size() == 0 {
			t.Error(name, err)
		}
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestInterrupted: Ctrl-C ends everything, and there is a report of what was.
func TestInterrupted(t *testing.T) {
	o := options(t)
	view := &logtest.Buffer{}
	o.Conns, o.Nodes, o.Shards, o.Phases, o.Idle, o.Step, o.View = 200, 2, 1, []string{"idle"}, time.Hour, time.Second/10, view
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		wait.Within(wait.Limit, func() bool { return strings.Contains(view.String(), "200 live") })
		cancel()
	}()
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || r == nil || r.Failure == "" {
		t.Fatalf("%v, %v", r, err)
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestKilled: nothing outlives a stand that is killed.
func TestKilled(t *testing.T) {
	o := options(t)
	stand := exec.Command(os.Args[0], standArgument, o.Out, o.Gyro)
	view := &logtest.Buffer{}
	stand.Stdout = view
	if err := stand.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "all connections", func() bool { return strings.Contains(view.String(), "200 live") })
	started := children(stand.Process.Pid)
	if len(started) != 3 {
		t.Errorf("%d processes run, not a node, a shard and a load process", len(started))
	}
	if err := stand.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = stand.Wait() // it was killed
	wait.Until(t, "the end of all processes", func() bool {
		for _, pid := range started {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
				return false
			}
		}
		return true
	})
}

// TestRefused: what a machine lacks is named, before anything is started.
func TestRefused(t *testing.T) {
	o := options(t)
	for _, tt := range []struct {
		conns, nodes, shards int
		gyro, want           string
	}{
		{100_000_000, 100_000, 1, o.Gyro, "memory: about"},
		{10_000_000, 1, 1, o.Gyro, "descriptors: a node of 10000000 connections needs 10000400"},
		{1000, 1, 1, "/nowhere/gyro", "gyro (make build) is missing"},
		{10, 1, 0, o.Gyro, "SHARDS=0"},
	} {
		o.Conns, o.Nodes, o.Shards, o.Gyro = tt.conns, tt.nodes, tt.shards, tt.gyro
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q is not in: %v", tt.want, err)
		}
	}
	o.Phases = []string{"connect", "nothing"}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Error(err)
	}
}
