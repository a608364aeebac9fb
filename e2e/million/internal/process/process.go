//go:build linux

// Package process has the programs that a stand runs. They do not outlive it.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/proc"
)

type Process struct {
	Name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// Launch starts a program, whose output goes to a file in the folder of logs.
func Launch(logs, name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, log: filepath.Join(logs, name+".log"), exited: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	cmd.Stderr = file
	// In a group of its own, so that Ctrl-C reaches this program alone, which then ends the others; killed with this
	// program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // the log says how it ended
		close(p.exited)
	}()
	return p, nil
}

func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU also of a process that has ended.
func (p *Process) CPU() time.Duration {
	if !p.Running() {
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}
	return proc.CPU(p.PID())
}

func (p *Process) Exited() <-chan struct{} { return p.exited }

func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal does nothing to a process that has ended.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill returns when the process has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Ended is the error for a process that should not have ended.
func (p *Process) Ended() error {
	return fmt.Errorf("%s has ended: %s\n%s", p.Name, p.cmd.ProcessState, p.Tail())
}

func (p *Process) Tail() string {
	data, _ := os.ReadFile(p.log) // it may have written nothing
	const most = 2 << 10
	return string(data[max(0, len(data)-most):])
}

const Patience = time.Minute

func (p *Process) Await(ctx context.Context, answers func() error) error {
	deadline := time.Now().Add(Patience)
	for {
		err := answers()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer within %v: %w\n%s", p.Name, Patience, err, p.Tail())
		}
		select {
		case <-p.Exited():
			return p.Ended()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
