package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

// clientEnv differs from the prefix of the configuration, because the server warns of unknown variables with that one.
const clientEnv = "GYROCLI_"

// remoteFlags are the flags of commands that talk to a server. A flag wins over its variable, a variable over the
// configuration file.
type remoteFlags struct {
	cmd                                             *cobra.Command
	url, api, apiKey, token, secret, user, file, ca string
	keySecret, signature                            string
	insecure, json, quiet                           bool
	asClient                                        bool
}

type clientError struct {
	error
	code int
}

func (e clientError) Unwrap() error { return e.error }

// talks adds the flags of the server API and, if asClient, of a client of the protocol.
func talks(cmd *cobra.Command, asClient bool) *remoteFlags {
	r := &remoteFlags{cmd: cmd, asClient: asClient}
	f := cmd.Flags()
	f.SortFlags = false
	text := func(to *string, name, meaning string) {
		f.StringVar(to, name, "", meaning+" ["+variableOf(name)+"]")
	}
	if asClient {
		text(&r.url, "url", "the server: ws://, wss://, http:// or https://; without a path, its WebSocket endpoint (default "+cli.DefaultURL+")")
		text(&r.token, "token", "token of the connection (default none: anonymous)")
		text(&r.secret, "token-hmac-secret", "sign the tokens of the connection and of its subscriptions by this secret")
		text(&r.user, "user", "user of the tokens that are signed")
	}
	text(&r.api, "api", "the server API: http:// or https:// (default "+cli.DefaultAPI+", or the host of --url)")
	text(&r.apiKey, "api-key", "key of the server API")
	f.StringVarP(&r.file, "config", "c", "", "configuration file of the server, for what is not given: addresses, key and secret ["+variableOf("config")+"]")
	text(&r.ca, "tls-ca", "file with the CAs of the server's certificate (default those of the system)")
	f.BoolVar(&r.insecure, "tls-skip-verify", false, "do not verify certificates")
	f.BoolVar(&r.json, "json", false, "print JSON, one object per line")
	f.BoolVarP(&r.quiet, "quiet", "q", false, "no messages but errors")
	return r
}

func (r *remoteFlags) trackFlags() {
	f := r.cmd.Flags()
	f.StringVar(&r.keySecret, "key-hmac-secret", "", "sign which keys are tracked by this secret, shared_poll.hmac_secret_key ["+variableOf("key-hmac-secret")+"]")
	f.StringVar(&r.signature, "signature", "", "signature of the keys, in their order ["+variableOf("signature")+"]")
}

func variableOf(flag string) string {
	return clientEnv + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (r *remoteFlags) remote() (cli.Remote, error) {
	for name, to := range map[string]*string{
		"url": &r.url, "token": &r.token, "token-hmac-secret": &r.secret, "user": &r.user, "api": &r.api, "api-key": &r.apiKey, "config": &r.file, "tls-ca": &r.ca,
		"key-hmac-secret": &r.keySecret, "signature": &r.signature,
	} {
		if f := r.cmd.Flags().Lookup(name); f != nil && !f.Changed {
			*to = os.Getenv(variableOf(name))
		}
	}
	var out cli.Remote
	if r.file != "" {
		cfg, _, err := loadValid(r.cmd, r.file)
		if err != nil {
			return out, err
		}
		out = cli.Of(cfg)
	}
	if r.url != "" {
		out.URL, out.API = r.url, ""
	}
	if r.api != "" {
		out.API = r.api
	}
	if r.apiKey != "" {
		out.APIKey = r.apiKey
	}
	switch {
	case r.token != "" && r.secret != "":
		return out, cli.Usage("token and token-hmac-secret exclude each other")
	case r.token != "":
		out.Token, out.Sign, out.Subscribe = r.token, nil, nil
	case r.secret != "":
		section := config.Token{HMACSecretKey: r.secret}
		out.Sign, out.Subscribe = &section, &section
	}
	out.User, out.Signature = r.user, r.signature
	if r.keySecret != "" {
		out.KeySecret = r.keySecret
	}
	var err error
	out.TLS, err = r.tls()
	return out, err
}

func (r *remoteFlags) tls() (*tls.Config, error) {
	if r.ca == "" && !r.insecure {
		return nil, nil
	}
	out := &tls.Config{InsecureSkipVerify: r.insecure, MinVersion: tls.VersionTLS12} // as --tls-skip-verify says
	if r.ca != "" {
		data, err := os.ReadFile(r.ca)
		if err != nil {
			return nil, fmt.Errorf("tls-ca: %w", err)
		}
		if out.RootCAs = x509.NewCertPool(); !out.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("tls-ca: there is no certificate in %s", r.ca)
		}
	}
	return out, nil
}

// run executes a command until it ends or a signal ends it. The exit code for a signal is 128 and its number.
func (r *remoteFlags) run(do func(ctx context.Context, remote cli.Remote, out *cli.Output) error) error {
	remote, err := r.remote()
	if err != nil {
		return err
	}
	out := &cli.Output{Out: r.cmd.OutOrStdout(), Err: r.cmd.ErrOrStderr(), JSON: r.json, Terminal: logs.IsTerminal(os.Stdout)}
	if r.quiet {
		out.Err = nil
	}
	return untilSignal(r.cmd.Context(), func(ctx context.Context) error { return do(ctx, remote, out) })
}

func untilSignal(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, stop := interruptible(ctx, func(s os.Signal) error {
		code := 128 + int(syscall.SIGTERM)
		if s == os.Interrupt {
			code = 128 + int(syscall.SIGINT)
		}
		return clientError{fmt.Errorf("interrupted by signal: %s", s), code}
	})
	defer stop()
	return do(ctx)
}

// interruptible returns a context that ends with a cause when the process is told to end.
func interruptible(ctx context.Context, cause func(os.Signal) error) (_ context.Context, stop func()) {
	ctx, interrupt := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			interrupt(cause(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		interrupt(nil)
	}
}

const wrongUsage = 2

// exitCode also returns whether to print no message.
func exitCode(err error) (code int, silent bool) {
	if _, ok := errors.AsType[cli.UsageError](err); ok {
		return wrongUsage, false
	}
	var own clientError
	if errors.As(err, &own) {
		return own.code, own.code > 128
	}
	return 1, false
}

// channelNames completes the names of channels, if the server API can be asked.
func (r *remoteFlags) channelNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	remote, err := r.remote()
	if err != nil || remote.APIKey == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	names, _ := remote.ChannelNames(ctx) // none if it fails
	return names, cobra.ShellCompDirectiveNoFileComp
}

func parsePosition(text string) (*protocol.StreamPosition, error) {
	if text == "" {
		return nil, nil
	}
	offset, epoch, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(offset, 10, 64)
	if !ok || err != nil {
		return nil, cli.Usage("since: %q is not OFFSET:EPOCH", text)
	}
	return &protocol.StreamPosition{Offset: n, Epoch: epoch}, nil
}
