package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gyrohq/gyro/server/internal/app"
	"github.com/gyrohq/gyro/server/internal/app/gcfloor"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/dev"
)

func serverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gyro",
		Short: "Gyro – real-time messaging server",
		Args:  noCommand,

		Annotations:                map[string]string{runsServer: "yes"},
		SuggestionsMinimumDistance: 2,
	}
	flags := cmd.Flags()
	file := flags.StringP("config", "c", "config.json", "path to config file")
	serverFlags(flags)
	completeValues(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := config.LoadDotEnv(".env"); err != nil {
			return err
		}
		options := config.Options{File: *file, Env: os.Environ(), Flags: changed(cmd.Flags())}
		cfg, warnings, err := config.Load(options)
		if err != nil {
			return err
		}
		// If the file that was there at start is missing, a reload fails. Otherwise it would take over the defaults.
		options.RequireFile = warnings.File == "" && *file != ""
		return serve(cfg, warnings, func() (*config.Config, config.Warnings, error) {
			options.Env = os.Environ()
			return config.Load(options)
		})
	}
	return cmd
}

var shorthands = map[string]string{"http_server.address": "a", "http_server.port": "p"}

func serverFlags(f *pflag.FlagSet) {
	for _, k := range config.Flags() {
		if k.Type == "bool" {
			f.Bool(k.Key, false, k.Doc)
			continue
		}
		f.VarP(&keyValue{text: k.Default, kind: k.Type}, k.Key, shorthands[k.Key], k.Doc)
	}
}

// keyValue takes any text: the configuration checks it, and names the key.
type keyValue struct{ text, kind string }

// String implements pflag.Value.
func (v *keyValue) String() string { return v.text }

// Set implements pflag.Value.
func (v *keyValue) Set(text string) error { v.text = text; return nil }

// Type implements pflag.Value.
func (v *keyValue) Type() string { return v.kind }

func completeValues(cmd *cobra.Command) {
	values := func(flag string, of ...string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	values("log.level", logs.Levels()...)
	values("log.format", "auto", "text", "json")
}

func changed(f *pflag.FlagSet) map[string]string {
	set := make(map[string]string)
	f.Visit(func(flag *pflag.Flag) {
		if flag.Name != "config" {
			set[flag.Name] = flag.Value.String()
		}
	})
	return set
}

// Below heapFloor bytes no garbage is collected: see docs/performance.md.
const heapFloor = 16 << 20

type loader func() (*config.Config, config.Warnings, error)

// serve runs a server until a signal or a failure ends it.
func serve(cfg *config.Config, warnings config.Warnings, reload loader) error {
	recent := logs.NewRecent()
	log, closeLog, err := logs.New(&cfg.Log, recent)
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // the process ends
	err = serveWith(log, recent, cfg, warnings, reload, nil)
	if err != nil && cfg.Log.File != "" { // the caller reports the error on stderr only
		log.Error("gyro cannot run", "error", err)
	}
	return err
}

// serveWith is serve with a given log. site has the additions of a development server, or is nil. Without reload, SIGHUP
// ends the server too.
func serveWith(log *slog.Logger, recent *logs.Recent, cfg *config.Config, warnings config.Warnings, reload loader, site *devSite) error {
	gcfloor.Set(heapFloor)
	o := app.Options{Version: version, Logger: log, Load: reload, Recent: recent}
	if site != nil {
		o.Pages, o.KnowsHost = site.pages, dev.Local
	}
	server, err := app.New(cfg, o)
	if err != nil {
		return err
	}
	if err := writePID(cfg.PIDFile); err != nil {
		return err
	}
	defer removePID(cfg.PIDFile)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	if interrupted, err := start(server, signals); err != nil || interrupted {
		if err == nil {
			err = shutdown(server, signals, cfg.Shutdown.Timeout)
		}
		return err
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	go gcfloor.Rest(running)
	warn(log, warnings)
	log.Info("gyro is running", "version", version, "pid", os.Getpid(), "config", cmp.Or(warnings.Source, "none"))
	notify(ready)
	if site != nil {
		site.announce(server.Addr("external"))
	}
	defer reopens(log)()
	reason, failure := await(server, signals, reload != nil)
	notify(stopping)
	if err := stopped(log, server, signals, reason, cfg.Shutdown.Timeout); err != nil {
		return errors.Join(failure, fmt.Errorf("shutdown: %w", err))
	}
	return failure
}

func stopped(log *slog.Logger, server *app.App, signals <-chan os.Signal, reason string, timeout time.Duration) error {
	began, clients := time.Now(), server.Node().NumClients()
	log.Info("shutting down", "reason", reason, "clients", clients)
	err := shutdown(server, signals, timeout)
	left := server.Node().NumClients()
	attrs := []any{"clients_told", max(clients-left, 0), "clients_left", left, "seconds", time.Since(began).Round(time.Millisecond).Seconds()}
	if err != nil {
		log.Error("stopped before the shutdown was complete", append(attrs, "error", err)...)
	} else {
		log.Info("stopped", attrs...)
	}
	return err
}

// start may take as long as a start_timeout. A signal other than SIGHUP interrupts it.
func start(server *app.App, signals <-chan os.Signal) (interrupted bool, err error) {
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	started := make(chan error, 1)
	go func() { started <- server.Start(ctx) }()
	for {
		select {
		case err := <-started:
			if interrupted {
				err = nil // the signal has caused it
			}
			return interrupted, err
		case s := <-signals:
			if s != syscall.SIGHUP {
				interrupted = true
				interrupt()
			}
		}
	}
}

func warn(log *slog.Logger, warnings config.Warnings) {
	for _, line := range warnings.Lines() {
		log.Warn(line)
	}
}

func await(server *app.App, signals <-chan os.Signal, reloads bool) (reason string, err error) {
	for {
		select {
		case err := <-server.Failed():
			return "failure", err
		case s := <-signals:
			if s != syscall.SIGHUP || !reloads {
				return "signal: " + s.String(), nil
			}
			_, _ = server.Reread() // which logs the result
		}
	}
}

// shutdown ends the server within timeout, or at once if another signal comes.
func shutdown(server *app.App, signals <-chan os.Signal, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("took longer than shutdown.timeout, %s", timeout))
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	go func() {
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGHUP {
					interrupt(fmt.Errorf("interrupted by signal: %s", s))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err := server.Shutdown(ctx)
	if ended := context.Cause(ctx); ended != nil && err != nil {
		return errors.Join(ended, otherThan(err, context.Canceled, context.DeadlineExceeded))
	}
	return err
}

// otherThan leaves errors that follow from an interruption out of err.
func otherThan(err error, follows ...error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, otherThan(e, follows...))
		}
		return errors.Join(rest...)
	}
	for _, f := range follows {
		if errors.Is(err, f) {
			return nil
		}
	}
	return err
}

func writePID(file string) error {
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return fmt.Errorf("pid_file: %w", err)
	}
	return nil
}

func removePID(file string) {
	if file != "" {
		_ = os.Remove(file) // the process ends anyway
	}
}
