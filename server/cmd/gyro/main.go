// Command gyro is the Gyro server: real-time messaging for backends in any
// language.
package main

//go:generate sh -c "cat configuration.head.md >../../../docs/configuration.md && go run . configdoc -m -l 1 >>../../../docs/configuration.md"

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	_ "github.com/gyrohq/gyro/server/internal/xconnect" // WebSocket over HTTP/2
)

// version is set by the release build (-ldflags "-X main.version=…").
var version = "0.1.0-dev"

func main() {
	if err := root().ExecuteContext(context.Background()); err != nil {
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := serverCommand()
	cmd.SilenceUsage = true
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stdout) // messages of subcommands go to stdout (config.md 2.1)
	cmd.AddCommand(
		devCommand(), benchCommand(), versionCommand(),
		genConfigCommand(), checkConfigCommand(), defaultConfigCommand(), defaultEnvCommand(), configDocCommand(), filesCommand(),
		tokenCommand("gentoken", false), tokenCommand("gensubtoken", true),
		checkTokenCommand("checktoken", false), checkTokenCommand("checksubtoken", true),
	)
	return cmd
}
