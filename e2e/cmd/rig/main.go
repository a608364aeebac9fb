// Command rig runs a suite in another language beside the servers that it needs:
//
//	rig COMMAND ARGS...
//
// COMMAND finds them described in the environment variable E2E_RIG.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: rig COMMAND ARGS...")
		os.Exit(2)
	}
	os.Exit(run(os.Args[1:]))
}

// run returns the exit code of the command.
func run(args []string) int {
	r, err := rig.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	defer r.Stop()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), r.Env()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if err == nil {
		return 0
	}
	fmt.Fprint(os.Stderr, r.Logs())
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	fmt.Fprintln(os.Stderr, "rig:", err)
	return 1
}
