//go:build linux

// Command million runs a cluster with up to a million connections on this machine, and prints the results; see
// docs/million.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gyrohq/gyro/e2e/million"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == million.LoadArgument {
		if err := million.Load(); err != nil {
			fmt.Fprintln(os.Stderr, "million load:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run())
}

func run() int {
	o := million.Options{View: os.Stderr}
	var phases string
	flag.IntVar(&o.Conns, "conns", 1_000_000, "`connections`")
	flag.IntVar(&o.Nodes, "nodes", 52, "nodes, of one processor each")
	flag.IntVar(&o.Shards, "shards", 5, "Redis shards")
	flag.IntVar(&o.Loads, "loads", 0, "load processes; 0 for as many as nodes")
	flag.DurationVar(&o.Idle, "idle", 0, "how long connections are left alone (60s)")
	flag.DurationVar(&o.Step, "step", 0, "how long each rate is published at (3s)")
	flag.DurationVar(&o.Drain, "drain", 0, "over what time a stopped node sends its clients away (3s)")
	flag.DurationVar(&o.Ping, "ping", 0, "time between pings (that of the server, 25s)")
	flag.StringVar(&phases, "phases", "", "`names` of phases with commas between them; empty for all")
	flag.StringVar(&o.Out, "out", ".cache/million", "folder for results and logs")
	flag.StringVar(&o.Gyro, "gyro", ".bin/gyro", "the server")
	var model, against string
	flag.StringVar(&model, "model", "", "run nothing: say what such a run takes, by the report.json in this `file` of a smaller one")
	flag.StringVar(&against, "against", "", "with -model: compare with the report.json in this `file`")
	flag.Parse()
	if model != "" {
		text, err := million.Predict(model, against, o.Conns, o.Nodes, o.Shards)
		if err != nil {
			fmt.Fprintln(os.Stderr, "million:", err)
			return 1
		}
		fmt.Print(text)
		return 0
	}
	if phases != "" {
		o.Phases = strings.Split(phases, ",")
	}
	if info, err := os.Stderr.Stat(); err == nil {
		o.Terminal = info.Mode()&os.ModeCharDevice != 0
	}
	var err error
	if o.Self, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, "million:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	r, err := million.Run(ctx, o)
	if r != nil {
		fmt.Print(r.Text())
		fmt.Printf("\nin %s: report.txt, report.json, report.html, logs\n", o.Out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "million:", err)
		return 1
	}
	return 0
}
