// Command gyro is the Gyro server: real-time messaging for backends in any
// language.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/tools/cli"
	_ "github.com/gyrohq/gyro/server/internal/web/xconnect" // WebSocket over HTTP/2
)

// version is set by builds of images (-ldflags "-X main.version=…"). Other builds take it from the module.
var version string

// commit is set by builds of releases; other builds take it from version control.
var commit string

func init() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	if commit == "" {
		commit = revision(info)
	}
	if version != "" {
		return
	}
	version = "0.1.0-dev" // for builds of a folder without version control
	if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok {
		version = v
	}
}

func revision(info *debug.BuildInfo) (of string) {
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			of = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " and changes"
		}
	}
	if of != "" {
		of += changed
	}
	return of
}

func main() {
	cmd, err := root().ExecuteContextC(context.Background())
	if err == nil {
		return
	}
	code, silent := exitCode(err)
	_, mistyped := errors.AsType[unknownCommand](err) // so no server was meant
	switch {
	case silent:
	case cmd.Annotations[runsServer] != "" && !mistyped:
		logs.ReportFatal(err)
	case mistyped || !cmd.SilenceErrors: // the command has not printed it itself
		fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
		if code == wrongUsage {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s --help tells how it is used.\n", cmd.CommandPath())
		}
	}
	os.Exit(code)
}

// runsServer is the annotation of commands whose output is a log.
const runsServer = "server"

func root() *cobra.Command {
	cmd := serverCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	cmd.Version = version
	cmd.SetVersionTemplate(versionText())
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	cmd.AddCommand(
		devCommand(), benchCommand(), conformanceCommand(), dictCommand(), versionCommand(), manCommand(),
		genConfigCommand(), checkConfigCommand(), defaultConfigCommand(), defaultEnvCommand(), configDocCommand(), configSchemaCommand(), filesCommand(),
		subCommand(), tailCommand(), pubCommand(), rpcCommand(), presenceCommand(), infoCommand(), explainCommand(), snapshotCommand(), doctorCommand(), healthCommand(), topCommand(),
		tokenCommand("gentoken", false), tokenCommand("gensubtoken", true),
		checkTokenCommand("checktoken", false), checkTokenCommand("checksubtoken", true),
	)
	tellUsage(cmd)
	return cmd
}

type unknownCommand struct{ text string }

func (e unknownCommand) Error() string { return e.text }

// noCommand: the server takes no arguments; they are misspelt names of commands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return unknownCommand{text}
}

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
