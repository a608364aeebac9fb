package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

func conformanceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance [URL...]",
		Short: "Judge a server by the rules of the client protocol",
		Long: `Judge a server, this or any other, by the rules of the client protocol, from the outside.

Each URL is an endpoint: ws:// and wss:// of WebSocket, http:// and https:// of HTTP streaming
or, if the path ends with sse, sockjs or webtransport, of that. One-way transports have paths that
end with uni_websocket, uni_sse or uni_http_stream. What channels grant is found out; a check that needs more
than the server offers is skipped, and the report says why. A failure names the rule, its section
in docs/, and shows the last messages. The exit code is 1 if a check has failed.

It publishes into channels whose names begin with those of --channel, and "conformance-".`,
		Example: `  gyro conformance ws://localhost:8000/connection/websocket --channel chat: --channel board:
  gyro conformance -c config.json --channel chat: --json | jq 'select(.status == "failed")'
  gyro conformance ws://localhost:8000 --run '^recovery' --seed 7 --verbose`,
	}
	c := &cli.Conformance{}
	r := talks(cmd, true)
	f := cmd.Flags()
	f.StringArrayVar(&c.Channels, "channel", []string{""}, "prefix of the names of channels, such as chat: of a namespace; repeatable, so that each feature is granted by one")
	f.StringVar(&c.Emulation, "emulation", "", "endpoint for the commands of HTTP streams (default /emulation on the host of the URL)")
	proto := f.String("proto", "", "encoding: json or protobuf (default all that the transport has)")
	f.Uint64Var(&c.Seed, "seed", 0, "of random conversations, which the same seed repeats (default a random one, which is printed)")
	f.IntVar(&c.Steps, "steps", 150, "steps of each random conversation")
	f.StringVar(&c.Only, "run", "", "make only the checks whose names match this regular expression")
	f.DurationVar(&c.Timeout, "timeout", 5*time.Second, "how long to wait for what has to come")
	f.DurationVar(&c.Patience, "patience", time.Minute, "how long to wait for pings, which come by themselves")
	f.BoolVarP(&c.Verbose, "verbose", "v", false, "print also what has passed")
	rules := f.Bool("list", false, "print the checks, their rules and sections, and make none")
	cmd.RunE = func(cmd *cobra.Command, urls []string) error {
		switch *proto {
		case "":
		case "json":
			c.Encodings = []protocol.Encoding{protocol.JSON}
		case "protobuf":
			c.Encodings = []protocol.Encoding{protocol.Protobuf}
		default:
			return cli.Usage("proto: %q is not json or protobuf", *proto)
		}
		if c.Steps < 1 || c.Timeout <= 0 || c.Patience <= 0 {
			return cli.Usage("steps, timeout and patience have to be above 0")
		}
		if !f.Changed("seed") {
			c.Seed = rand.Uint64N(1 << 32)
		}
		c.URLs = urls
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			if c.Remote = remote; *rules {
				return c.Rules(out)
			}
			return c.Run(ctx, out)
		})
	}
	return cmd
}
