package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
	"github.com/gyrohq/gyro/server/internal/tools/cli/explained"
)

func explainCommand() *cobra.Command {
	var q api.ExplainRequest
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Tell why a user does not get messages",
		Long: `Tell why a user does not get messages: the user's connections on all nodes, what happened
to them of late, and step by step whether the user may subscribe to a channel. It asks a running
server by its HTTP API.`,
		Example: `  gyro explain --user 42 -c config.json
  gyro explain --user 42 --channel chat:index --api https://rt.example.com/api --api-key KEY`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&q.User, "user", "u", "", "ID of the user")
	f.StringVar(&q.Channel, "channel", "", "channel whose messages are missing; empty for any")
	f.Int32Var(&q.Limit, "limit", 50, "most events, the latest; up to 1000")
	r := talks(cmd, false)
	cmd.RunE = func(*cobra.Command, []string) error {
		if q.User == "" {
			return cli.Usage("--user is missing")
		}
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			caller, err := remote.Caller()
			if err != nil {
				return err
			}
			res, text, err := explained.Ask(ctx, caller, &q)
			switch {
			case err != nil:
				return err
			case out.JSON:
				_, err = out.Out.Write(append(text, '\n'))
				return err
			}
			return explained.Write(out.Out, res, time.Now())
		})
	}
	return cmd
}
