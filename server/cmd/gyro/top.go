package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
	"github.com/gyrohq/gyro/server/internal/tools/cli/top"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the nodes of a cluster",
		Long: `Watch the nodes of a cluster: clients, users, subscriptions and channels of each, and how they
change. With --metrics, also what one node does in a second. Keys are explained below the table.
With --json, no terminal is needed: each look prints an object per node.`,
		Example: "  gyro top -c config.json\n  gyro top --api https://rt.example.com/api --api-key KEY --metrics http://10.0.0.7:9000/metrics",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	interval := f.Duration("interval", time.Second, "time between two looks")
	metrics := f.String("metrics", "", "metrics of a node (docs/metrics.md): http:// or https://")
	r := talks(cmd, false)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *interval <= 0 {
			return cli.Usage("interval: %s is not positive", *interval)
		}
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			if out.JSON {
				return watchNodes(ctx, remote, out, *interval)
			}
			if !logs.IsTerminal(os.Stdout) || !logs.IsTerminal(os.Stdin) {
				return errors.New("gyro top needs a terminal; without one, use --json, or gyro info")
			}
			s := top.Source{Nodes: remote.Nodes, Interval: *interval}
			if *metrics != "" {
				s.Metrics = top.Scrape(&http.Client{Transport: &http.Transport{TLSClientConfig: remote.TLS}}, *metrics)
			}
			return top.Run(ctx, s)
		})
	}
	return cmd
}

func watchNodes(ctx context.Context, remote cli.Remote, out *cli.Output, interval time.Duration) error {
	for {
		if err := (&cli.Info{Remote: remote}).Run(ctx, out); err != nil {
			return err
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
