//go:build unix

// Command rig runs a suite in another language beside the servers that it needs:
//
//	rig COMMAND ARGS...
//
// The environment variable E2E_RIG describes them to COMMAND.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

const grace = 10 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: rig COMMAND ARGS...")
		os.Exit(2)
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	r, err := rig.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	defer r.Stop()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), r.Env()...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = runGroup(cmd)
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

// runGroup runs a command in a process group of its own, and kills the group when it ends, or this program gets a
// signal.
func runGroup(cmd *exec.Cmd) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tell := func(s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) } // no process may be left
	defer tell(syscall.SIGKILL)
	select {
	case err := <-ended:
		return err
	case s := <-signals:
		tell(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(grace):
		}
		return fmt.Errorf("ended by signal: %v", s)
	}
}
