package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

func snapshotCommand() *cobra.Command {
	s := &cli.Snapshot{}
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Print all connections of all nodes, or some of them",
		Long: `Print all connections of all nodes with their channels, or those for which all flags hold: one
line of JSON each, as they come from the nodes. How many there were is said on stderr. It asks
a running server by its HTTP API. If a node does not answer to the end, the exit code is 1.`,
		Example: `  gyro snapshot -c config.json >connections.jsonl
  gyro snapshot -c config.json --channel news --label plan=free
  gyro snapshot -c config.json --expression "queue > 65536 && now_ms - connected_at_ms > 3600000"
  gyro snapshot -c config.json | jq -r '.state.channels | keys[]' | sort | uniq -c`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&s.User, "user", "u", "", "connections of this user")
	f.StringVar(&s.Client, "client", "", "the connection with this ID")
	f.StringVar(&s.Channel, "channel", "", "connections that are subscribed to this channel")
	f.StringArrayVarP(&s.Labels, "label", "l", nil, "connections with this label: NAME=VALUE, or NAME for any value; may be given several times")
	f.StringVarP(&s.Expression, "expression", "e", "", "connections for which this expression (CEL) is true")
	r := talks(cmd, false)
	cmd.RunE = func(*cobra.Command, []string) error {
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			s.Remote = remote
			return s.Run(ctx, out)
		})
	}
	return cmd
}
