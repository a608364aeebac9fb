package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/bench"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put a server under load and measure it",
		Long: `Put a server under load and measure it.

Every message is accounted for: the exit code is not 0 if one is lost, comes
twice or out of order, or if a connection is lost or refused. The result goes to
stdout, progress to stderr if that is a terminal.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchFanoutCommand(), benchIdleCommand(), benchStormCommand(), benchPublishCommand(), benchEmulationCommand())
	return cmd
}

type scenario interface {
	Run(ctx context.Context) (*bench.Report, error)
}

type benchFlags struct {
	cmd                         *cobra.Command
	before                      []func() error // called once the flags are parsed
	transport, emulation        string
	url, api, apiKey            string
	encoding                    string
	token, tokenSecret, channel string
	headers                     []string
	size, dialers, pid          int
	keys, page                  int
	timeout, drain              time.Duration
	insecure, json, quiet       bool
}

func newBenchFlags(cmd *cobra.Command) *benchFlags {
	cmd.Args = cobra.NoArgs
	cmd.Flags().SortFlags = false
	return &benchFlags{cmd: cmd, size: 128}
}

func (b *benchFlags) common(timeout time.Duration) {
	f := b.cmd.Flags()
	f.StringVar(&b.url, "url", "ws://127.0.0.1:8000/connection/websocket", "endpoint of the transport: ws:// or wss:// of WebSocket, http:// or https:// of the others; unless given, that of --transport")
	f.StringVar(&b.api, "api", "http://127.0.0.1:8000/api", "HTTP API, for --via api")
	f.StringVar(&b.apiKey, "api-key", "", "API key")
	f.StringVar(&b.encoding, "proto", "json", "encoding of the client protocol: json or protobuf")
	f.StringVar(&b.token, "token", "", "connection token of all clients (default none: anonymous)")
	f.StringVar(&b.tokenSecret, "token-hmac-secret", "", "sign a token for each client, user bench-0, bench-1 …, by this secret")
	f.StringVar(&b.channel, "channel", "bench", "channel; where there are several, -0, -1 … follow")
	f.StringArrayVar(&b.headers, "header", nil, "header of the handshake, or of the request of a stream, \"Name: value\"; repeatable")
	f.BoolVar(&b.insecure, "tls-skip-verify", false, "do not verify certificates")
	f.IntVar(&b.dialers, "dialers", 256, "connections set up at a time")
	f.IntVar(&b.pid, "pid", 0, "the server's process, on this machine: report its CPU and memory")
	f.DurationVar(&b.timeout, "timeout", timeout, "bound of the whole run")
	f.DurationVar(&b.drain, "drain", 5*time.Second, "silence after which what has not come counts as lost")
	f.BoolVar(&b.json, "json", false, "print the result as JSON")
	f.BoolVar(&b.quiet, "quiet", false, "no progress line")
}

func (b *benchFlags) transportFlags() {
	f := b.cmd.Flags()
	f.StringVar(&b.transport, "transport", "", "transport of the clients: "+strings.Join(bench.Transports(), ", ")+
		" (default websocket); clients of uni_... need --token-hmac-secret, or a --token that names their channels")
	b.emulationFlag("endpoint for commands of http_stream and sse")
	b.before = append(b.before, func() error {
		if !f.Changed("url") {
			b.url = bench.DefaultURL(b.transport)
		}
		return nil
	})
}

func (b *benchFlags) emulationFlag(meaning string) {
	b.cmd.Flags().StringVar(&b.emulation, "emulation", "", meaning+": http:// or https:// (default /emulation on the host of --url)")
}

func (b *benchFlags) sizeFlag() {
	b.cmd.Flags().IntVar(&b.size, "size", 128, fmt.Sprintf("payload in bytes, from %d to %d", bench.MinSize, bench.MaxSize))
}

func (b *benchFlags) mapFlags() {
	f := b.cmd.Flags()
	f.IntVar(&b.keys, "keys", 0, "the channels are maps with so many entries, which are set over the HTTP API before subscribers come")
	f.IntVar(&b.page, "page", 0, "entries of a map that a subscriber asks for at a time (default the server's)")
}

// loadFlags adds the flags of publishers. meaning explains --msgs, defaultVia is the default of --via.
func (b *benchFlags) loadFlags(l *bench.Load, messages int, meaning string, window int, defaultVia string) {
	f := b.cmd.Flags()
	f.IntVar(&l.Publishers, "pub", 1, "publishers")
	f.IntVar(&l.Messages, "msgs", messages, meaning)
	f.Float64Var(&l.Rate, "rate", 0, "publications per second of all publishers (default as fast as --window lets)")
	f.IntVar(&l.Window, "window", window, "publications in flight per publisher; with --via api, publications in a batch request")
	via := f.String("via", defaultVia, "how to publish: client (a connection each) or api (HTTP)")
	b.before = append(b.before, func() error {
		if l.OverAPI = *via == "api"; !l.OverAPI && *via != "client" {
			return cli.Usage("via: %q is neither client nor api", *via)
		}
		return nil
	})
}

// durationFlag adds --duration. With it, messages are unlimited unless --msgs is given, too.
func (b *benchFlags) durationFlag(l *bench.Load) {
	f := b.cmd.Flags()
	f.DurationVar(&l.Duration, "duration", 0, "publish for so long; then --msgs is unlimited if not given")
	b.before = append(b.before, func() error {
		if l.Duration > 0 && !f.Changed("msgs") {
			l.Messages = 0
		}
		return nil
	})
}

func (b *benchFlags) target() (bench.Target, error) {
	t := bench.Target{
		Transport: b.transport, URL: b.url, Emulation: b.emulation, API: strings.TrimRight(b.api, "/"), APIKey: b.apiKey, Header: make(http.Header),
		Channel: b.channel, Keys: b.keys, Page: b.page, Size: b.size, Dialers: b.dialers, Drain: b.drain, PID: b.pid,
	}
	switch b.encoding {
	case "json":
	case "protobuf":
		t.Encoding = protocol.Protobuf
	default:
		return t, cli.Usage("proto: %q is neither json nor protobuf", b.encoding)
	}
	for _, h := range b.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return t, cli.Usage("header: %q is not \"Name: value\"", h)
		}
		t.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if b.insecure {
		t.TLS = &tls.Config{InsecureSkipVerify: true} // as --tls-skip-verify says
	}
	switch {
	case b.token != "" && b.tokenSecret != "":
		return t, cli.Usage("token and token-hmac-secret exclude each other")
	case b.token != "":
		t.Token = func(int, ...string) (string, error) { return b.token, nil }
	case b.tokenSecret != "":
		section := config.Token{HMACSecretKey: b.tokenSecret}
		t.Token = func(client int, channels ...string) (string, error) {
			claims := auth.Claims{User: fmt.Sprintf("bench-%d", client), Channels: channels, TTL: 24 * time.Hour}
			return auth.Sign(section, claims, time.Now())
		}
	}
	if b.timeout <= 0 {
		return t, cli.Usage("timeout: %s is not positive", b.timeout)
	}
	return t, nil
}

func (b *benchFlags) command(s scenario, t *bench.Target, timeout time.Duration) *cobra.Command {
	b.common(timeout)
	b.cmd.RunE = func(*cobra.Command, []string) (err error) {
		for _, f := range b.before {
			if err := f(); err != nil {
				return err
			}
		}
		if *t, err = b.target(); err != nil {
			return err
		}
		return b.run(s, t)
	}
	return b.cmd
}

func (b *benchFlags) run(s scenario, t *bench.Target) error {
	clear := func() {}
	if !b.quiet && logs.IsTerminal(os.Stderr) {
		t.Progress = func(line string) { fmt.Fprintf(os.Stderr, "\r\033[K%s", line) }
		clear = func() { fmt.Fprint(os.Stderr, "\r\033[K") }
	}
	ctx, cancel := context.WithTimeoutCause(b.cmd.Context(), b.timeout, fmt.Errorf("not finished within --timeout %s", b.timeout))
	defer cancel()
	ctx, stop := interruptible(ctx, func(s os.Signal) error { return fmt.Errorf("interrupted by signal: %s", s) })
	defer stop()
	rep, err := s.Run(ctx)
	clear()
	if rep == nil { // it cannot begin with these flags
		return cli.UsageError{Err: err}
	}
	out := b.cmd.OutOrStdout()
	if b.json {
		return errors.Join(err, rep.WriteJSON(out))
	}
	return errors.Join(err, rep.WriteText(out))
}

func benchFanoutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fanout",
		Short: "Publish to channels with many subscribers",
		Example: `  gyro bench fanout --sub 1000 --pub 4 --msgs 1000
  gyro bench fanout --sub 1000 --rate 50 --duration 10s --proto protobuf --pid $(pidof gyro)`,
	}
	s := &bench.Fanout{}
	b := newBenchFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&s.Subscribers, "sub", 1000, "subscribers")
	f.IntVar(&s.Channels, "channels", 1, "channels over which publications and subscribers are spread")
	b.loadFlags(&s.Load, 1000, "publications per publisher", 1, "client")
	b.durationFlag(&s.Load)
	b.sizeFlag()
	b.mapFlags()
	b.transportFlags()
	return b.command(s, &s.Target, 5*time.Minute)
}

func benchIdleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "idle",
		Short:   "Hold connections on which nothing happens",
		Example: `  gyro bench idle --conns 15000 --duration 60s --pid $(pidof gyro)`,
	}
	s := &bench.Idle{}
	b := newBenchFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&s.Connections, "conns", 1000, "connections")
	f.IntVar(&s.Channels, "channels", 0, "channels over which they are spread (default one each)")
	f.DurationVar(&s.Duration, "duration", 10*time.Second, "time for which they stay")
	b.mapFlags()
	b.transportFlags()
	return b.command(s, &s.Target, 10*time.Minute)
}

func benchStormCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Cut all connections at once and let all clients recover",
		Long: `Cut all connections at once and let all clients recover.

The channels have to be recoverable: --channel is in a namespace with
history_size, history_ttl and force_recovery. Each channel gets one publication
before the cut and --msgs while its clients are away; another publisher goes on
from before the cut until all are back (--live).

With --pid, the server's CPU per client is all that its process used from the first
attempt until the last client was back, live publications and the end of connections
that it had not noticed yet included, divided by the clients. The return alone is
what is left with --live 0 --away 3s. A server that is not kept busy (see its share
of a core) also wakes up for each step of each client, which costs it up to half as
much again: compare servers at about the same share.`,
		Example: `  gyro bench storm --conns 15000 --channel history:bench --pid $(pidof gyro)
  gyro bench storm --conns 15000 --channel history:bench --channels 10 --via api --api-key KEY`,
	}
	s := &bench.Storm{}
	b := newBenchFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&s.Connections, "conns", 1000, "clients")
	f.IntVar(&s.Channels, "channels", 0, "channels over which they are spread (default one each)")
	f.Float64Var(&s.Live, "live", 500, "publications per second that go on through the storm, over all channels; 0 for none")
	f.DurationVar(&s.Away, "away", 0, "time for which clients stay away at least")
	b.loadFlags(&s.Load, 3, "publications to each channel while its clients are away", 64, "client")
	b.sizeFlag()
	b.transportFlags()
	return b.command(s, &s.Target, 5*time.Minute)
}

func benchPublishCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish where nobody listens",
		Example: `  gyro bench publish --pub 8 --msgs 10000 --api-key KEY
  gyro bench publish --msgs 500000 --window 50000 --api-key KEY
  gyro bench publish --msgs 10 --channels 100000 --broadcast --api-key KEY`,
	}
	s := &bench.Publish{}
	b := newBenchFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&s.Channels, "channels", 1, "channels over which publications are spread")
	f.BoolVar(&s.Broadcast, "broadcast", false, "every message goes to all channels, in one request")
	b.loadFlags(&s.Load, 10000, "publications per publisher", 1, "api")
	b.durationFlag(&s.Load)
	b.sizeFlag()
	b.transportFlags()
	return b.command(s, &s.Target, 5*time.Minute)
}

func benchEmulationCommand() *cobra.Command {
	const stream = "http://127.0.0.1:8000/connection/http_stream"
	cmd := &cobra.Command{
		Use:   "emulation",
		Short: "Send commands of HTTP streams by requests",
		Long: `Send commands of HTTP streams by requests.

Each client opens a stream (--url) and sends emulation requests over a kept
connection, one after the other. Each has an unsubscribe command, which does nothing,
but whose reply comes by the stream. To measure requests that come to another node than
the stream, let --emulation be that node's.`,
		Example: `  gyro bench emulation --conns 16 --msgs 10000 --pid $(pidof gyro)
  gyro bench emulation --emulation http://127.0.0.1:8001/emulation --proto protobuf`,
	}
	s := &bench.Emulation{}
	b := newBenchFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&s.Streams, "conns", 16, "clients")
	f.IntVar(&s.Messages, "msgs", 10000, "requests per client")
	b.emulationFlag("endpoint for the requests")
	b.command(s, &s.Target, 5*time.Minute)
	url := f.Lookup("url")
	url.Usage, url.DefValue, b.url = "endpoint http_stream: http:// or https://", stream, stream
	return cmd
}
