package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

func subCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sub CHANNEL…",
		Short: "Print what is published in channels",
		Long: `Print what is published in channels, as a client that is subscribed to them.

A lost connection comes back, and what was published meanwhile is printed if the
channels keep a history. Messages about that go to stderr. Each line is the data of
a publication; if there are several channels, the channel and a tab are before it.
With --json, everything that happens is an object: its type is publication, entry,
reset, join, leave, message, connected, disconnected, subscribed or unsubscribed.

With --type map, the entries of the maps come first, then what changes; each line has
the key and a tab before the data, and the key alone if it was removed. Clients and
users are maps of who is present. With --type poll, the keys of --key are tracked.`,
		Example: `  gyro sub -c config.json news
  gyro sub -c config.json --type map --once board
  gyro sub -c config.json --type poll --key BTC --key ETH prices:crypto
  gyro sub --url wss://rt.example.com --token "$TOKEN" news chat:1 --json | jq .data`,
		Args: cobra.MinimumNArgs(1),
	}
	s := &cli.Subscribe{}
	f := cmd.Flags()
	f.IntVarP(&s.Count, "count", "n", 0, "end after so many publications (default never)")
	since := f.String("since", "", "begin after this position, OFFSET:EPOCH, of the one channel")
	f.BoolVar(&s.JoinLeave, "join-leave", false, "also tell who comes and goes")
	f.BoolVar(&s.Once, "once", false, "end when the entries of the maps are printed")
	kind := kindFlags(cmd)
	r := talks(cmd, true)
	r.trackFlags()
	cmd.ValidArgsFunction = r.channelNames
	cmd.RunE = func(_ *cobra.Command, args []string) (err error) {
		if s.Since, err = parsePosition(*since); err != nil {
			return err
		}
		if s.Kind, err = kind(); err != nil {
			return err
		}
		s.Channels = args
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			s.Remote = remote
			return s.Run(ctx, out)
		})
	}
	return cmd
}

func tailCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail CHANNEL…",
		Short: "Print the last publications of channels, and then what comes",
		Long: `Print the last publications of channels, and then what comes.

The command is a client, as gyro sub is, and its lines are the same. Of maps, it prints
the entries that have changed last. The history is
read over the server API if --api-key is given, else as the client, which then needs
the permission. With --via api no client is needed: the history is read again and again.`,
		Example: `  gyro tail -c config.json news chat:1
  gyro tail --via api --api-key KEY -n 100 news`,
		Args: cobra.MinimumNArgs(1),
	}
	t := &cli.Tail{}
	f := cmd.Flags()
	f.IntVarP(&t.Lines, "lines", "n", 10, "publications of each channel to begin with")
	f.IntVar(&t.Count, "count", 0, "end after so many publications, those of the history included (default never)")
	via := viaFlag(cmd, "client", "how to hear of what is new: client, or api")
	f.DurationVar(&t.Interval, "interval", time.Second, "time between two requests of --via api")
	kind := kindFlags(cmd)
	r := talks(cmd, true)
	r.trackFlags()
	cmd.ValidArgsFunction = r.channelNames
	cmd.RunE = func(_ *cobra.Command, args []string) (err error) {
		if t.OverAPI, err = overAPI(*via); err != nil {
			return err
		}
		if t.Lines < 0 || t.Interval <= 0 {
			return cli.Usage("lines and interval have to be positive")
		}
		if t.Kind, err = kind(); err != nil {
			return err
		}
		t.Channels = args
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			t.Remote = remote
			return t.Run(ctx, out)
		})
	}
	return cmd
}

func pubCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pub CHANNEL [DATA|-]",
		Short: "Publish into a channel, or set a key of a map",
		Long: `Publish into a channel: one publication with DATA, or one for each line of stdin if
DATA is -. DATA is JSON; with --text it is any text, which becomes a JSON string. The
first publication that fails ends the command; the error has the number of its line.
With --json, the position of each publication is printed.

With --key, the channel is a map, and DATA the value of the key; with --remove, and
without DATA, the key is removed.`,
		Example: `  gyro pub -c config.json news '{"text":"hello"}'
  gyro pub -c config.json --key note-1 board '{"text":"buy milk"}'
  tail -f app.log | gyro pub -c config.json --text log -`,
		Args: cobra.RangeArgs(1, 2),
	}
	p := &cli.Publish{}
	f := cmd.Flags()
	f.BoolVar(&p.Text, "text", false, "DATA is text, not JSON")
	f.BoolVar(&p.SkipHistory, "skip-history", false, "do not add to the history")
	f.BoolVar(&p.Delta, "delta", false, "send differences to subscribers that asked for them")
	f.StringVar(&p.IdempotencyKey, "idempotency-key", "", "publish once, however often a publication with this key is repeated")
	f.StringVar(&p.Key, "key", "", "key of a map")
	f.BoolVar(&p.Remove, "remove", false, "remove the key")
	tags := f.StringArray("tag", nil, "tag of the publications, NAME=VALUE; repeatable")
	via := viaFlag(cmd, "api", "how to publish: api, or client")
	r := talks(cmd, true)
	cmd.ValidArgsFunction = firstArg(r.channelNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := overAPI(*via)
		if err != nil {
			return err
		}
		p.AsClient, p.Channel, p.In = !api, args[0], cmd.InOrStdin()
		switch {
		case p.Remove != (len(args) == 1):
			return cli.Usage("DATA is needed, but for --remove, which has none")
		case !p.Remove && args[1] != "-":
			p.Data = []byte(args[1])
		}
		for _, tag := range *tags {
			name, value, ok := strings.Cut(tag, "=")
			if !ok {
				return cli.Usage("tag: %q is not NAME=VALUE", tag)
			}
			if p.Tags == nil {
				p.Tags = make(map[string]string)
			}
			p.Tags[name] = value
		}
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			p.Remote = remote
			return p.Run(ctx, out)
		})
	}
	return cmd
}

func rpcCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rpc METHOD [DATA]",
		Short: "Call a method and print the answer",
		Long: `Call a method of the backend, as a client, and print the answer. DATA is JSON; without
it, {} is sent. With --via api, a method of the server itself is called, such as reload.`,
		Example: `  gyro rpc -c config.json --user 42 getProfile '{"id":7}'
  gyro rpc -c config.json --via api reload`,
		Args: cobra.RangeArgs(1, 2),
	}
	c := &cli.RPC{}
	cmd.Flags().BoolVar(&c.Text, "text", false, "DATA is text, not JSON")
	via := viaFlag(cmd, "client", "how to call: client, or api")
	r := talks(cmd, true)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(_ *cobra.Command, args []string) (err error) {
		if c.OverAPI, err = overAPI(*via); err != nil {
			return err
		}
		if c.Method = args[0]; len(args) > 1 {
			c.Data = []byte(args[1])
		}
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			c.Remote = remote
			return c.Run(ctx, out)
		})
	}
	return cmd
}

func presenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "presence CHANNEL…",
		Short:   "Print who is in channels",
		Example: `  gyro presence -c config.json chat:1 --json | jq -r .user`,
		Args:    cobra.MinimumNArgs(1),
	}
	p := &cli.Presence{}
	cmd.Flags().BoolVar(&p.Stats, "stats", false, "print how many there are instead")
	r := talks(cmd, false)
	cmd.ValidArgsFunction = r.channelNames
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p.Channels = args
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			p.Remote = remote
			return p.Run(ctx, out)
		})
	}
	return cmd
}

func infoCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "info", Short: "Print the nodes of the cluster", Example: "  gyro info -c config.json", Args: cobra.NoArgs}
	r := talks(cmd, false)
	cmd.RunE = func(*cobra.Command, []string) error {
		return r.run(func(ctx context.Context, remote cli.Remote, out *cli.Output) error {
			return (&cli.Info{Remote: remote}).Run(ctx, out)
		})
	}
	return cmd
}

var kinds = map[string]cli.Type{"stream": cli.Stream, "map": cli.Map, "clients": cli.MapClients, "users": cli.MapUsers, "poll": cli.SharedPoll}

// kindFlags returns a function that reads the flags that it adds.
func kindFlags(cmd *cobra.Command) func() (cli.Kind, error) {
	var k cli.Kind
	f := cmd.Flags()
	name := f.String("type", "stream", "what the channels are: stream, map, clients or users (maps of who is present), or poll (shared polls)")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(slices.Sorted(maps.Keys(kinds)), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.StringArrayVar(&k.Keys, "key", nil, "key to track in channels of type poll; repeatable")
	f.BoolVar(&k.Delta, "delta", false, "have the server send differences, where it may; what is printed is the same")
	return func() (cli.Kind, error) {
		var ok bool
		if k.Type, ok = kinds[*name]; !ok {
			return k, cli.Usage("type: %q is none of stream, map, clients, users, poll", *name)
		}
		return k, nil
	}
}

func viaFlag(cmd *cobra.Command, def, meaning string) *string {
	via := cmd.Flags().String("via", def, meaning)
	_ = cmd.RegisterFlagCompletionFunc("via", cobra.FixedCompletions([]string{"api", "client"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return via
}

func overAPI(via string) (bool, error) {
	if via != "api" && via != "client" {
		return false, cli.Usage("via: %q is neither client nor api", via)
	}
	return via == "api", nil
}

func firstArg(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, start)
	}
}
