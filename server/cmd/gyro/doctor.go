package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/app"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/cli/doctor"
)

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what the server needs around it, and say what to do",
		Long: `Check what the server needs around it, as its configuration says, and say what to do.

It looks at the configuration, tokens, limits of the system, ports, certificates, at each
Redis, NATS and PostgreSQL and their clocks, at the queues of consumers and at backends. It
changes nothing. Run it as the user of the server, on its machine. The exit code is 1 if
there is a problem.`,
		Example: "  gyro doctor -c config.json --host rt.example.com\n  gyro doctor -c config.json --json | jq 'select(.status != \"ok\")'",
		Args:    cobra.NoArgs,
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON, one object per finding")
	host := cmd.Flags().String("host", "", "name by which clients reach the server: its certificates have to be for it")
	timeout := cmd.Flags().Duration("timeout", 5*time.Second, "bound of each connection")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, warnings, err := loadValid(cmd, *file)
		if err != nil {
			return err
		}
		o := doctor.Options{Config: cfg, Warnings: warnings.Lines(), Check: app.Check, Timeout: *timeout, Host: *host}
		if runtime.GOOS == "linux" {
			o.Proc = os.DirFS("/proc")
		}
		o.Report = report(cmd, *asJSON)
		return untilSignal(cmd.Context(), func(ctx context.Context) error {
			failed, err := doctor.Examine(ctx, o)
			if err == nil && failed {
				err = errors.New("there are problems")
			}
			return err
		})
	}
	return cmd
}

var colours = map[doctor.Status]string{doctor.OK: "\x1b[32m", doctor.Warn: "\x1b[33m", doctor.Fail: "\x1b[31m"}

func report(cmd *cobra.Command, asJSON bool) func(doctor.Finding) error {
	out := cmd.OutOrStdout()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return func(f doctor.Finding) error { return enc.Encode(f) }
	}
	colour := logs.Colours(os.Stdout)
	return func(f doctor.Finding) error {
		status := fmt.Sprintf("%-8s", f.Status)
		if colour {
			status = colours[f.Status] + status + "\x1b[0m"
		}
		text := fmt.Sprintf("%s %s: %s\n", status, f.Area, f.Text)
		if f.Advice != "" {
			text += "         -> " + f.Advice + "\n"
		}
		_, err := fmt.Fprint(out, text)
		return err
	}
}
