package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

// For containers, whose image has no other program.
func healthCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the server on this machine whether it is well",
		Long: `Ask the health endpoint of the server on this machine (docs/scaling.md#health). Where it is
says the configuration: give the file, the variables and the flags that the server has. The
exit code is 0 if the answer is 200, and 1 if it is another one, or none within --timeout.`,
		Example: "  gyro health -c config.json\n  HEALTHCHECK CMD [\"/gyro\", \"health\"]",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	file := f.StringP("config", "c", "config.json", "path to config file")
	timeout := f.Duration("timeout", 3*time.Second, "bound of the whole question")
	live := f.Bool("live", false, "ask whether the process serves, not whether it delivers: its endpoint /live")
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	serverFlags(own)
	own.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	f.AddFlagSet(own)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *timeout <= 0 {
			return cli.Usage("timeout: %s is not positive", *timeout)
		}
		if err := config.LoadDotEnv(".env"); err != nil {
			return err
		}
		set := make(map[string]string)
		own.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed {
				set[flag.Name] = flag.Value.String()
			}
		})
		cfg, _, err := config.Load(config.Options{File: *file, Env: os.Environ(), Flags: set})
		if err != nil {
			return err
		}
		name := ""
		if *live {
			name = "live"
		}
		health, err := cli.HealthOf(cfg, name)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), *timeout, fmt.Errorf("no answer within %s", *timeout))
		defer cancel()
		return health.Run(ctx, cmd.OutOrStdout())
	}
	return cmd
}
