// Command gyro is the Gyro server: real-time messaging for backends in any
// language.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/cli"
	_ "github.com/gyrohq/gyro/server/internal/xconnect" // WebSocket over HTTP/2
	"github.com/gyrohq/gyro/server/logs"
)

// version of the server. Builds of images set it (-ldflags "-X main.version=…"). Other builds
// take it from the module: the release of go install, or the commit that was built.
var version string

func init() {
	if version != "" {
		return
	}
	version = "0.1.0-dev" // for builds of a folder without version control
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = info.Main.Version[1:]
	}
}

func main() {
	cmd, err := root().ExecuteContextC(context.Background())
	if err == nil {
		return
	}
	code, silent := exitCode(err)
	switch {
	case silent:
	case cmd.Annotations[runsServer] != "":
		logs.ReportFatal(err)
	case !cmd.SilenceErrors: // the command has not printed it itself
		fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
		if code == wrongUsage {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s --help tells how it is used.\n", cmd.CommandPath())
		}
	}
	os.Exit(code)
}

// runsServer is the annotation of commands that run a server: their output is a log.
const runsServer = "server"

func root() *cobra.Command {
	cmd := serverCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	cmd.AddCommand(
		devCommand(), benchCommand(), conformanceCommand(), dictCommand(), versionCommand(),
		genConfigCommand(), checkConfigCommand(), defaultConfigCommand(), defaultEnvCommand(), configDocCommand(), configSchemaCommand(), filesCommand(),
		subCommand(), tailCommand(), pubCommand(), rpcCommand(), presenceCommand(), infoCommand(), explainCommand(), snapshotCommand(), doctorCommand(), topCommand(),
		tokenCommand("gentoken", false), tokenCommand("gensubtoken", true),
		checkTokenCommand("checktoken", false), checkTokenCommand("checksubtoken", true),
	)
	tellUsage(cmd)
	return cmd
}

// tellUsage makes usage errors of what the checks of arguments find.
func tellUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return cli.UsageError{Err: err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		tellUsage(c)
	}
}
