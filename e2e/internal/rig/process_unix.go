//go:build unix

package rig

import (
	"os/exec"
	"syscall"
)

// Pause suspends the server (SIGSTOP): its connections stay, and nobody answers.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) } // it may have ended already

// Resume lets a suspended server go on.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) } // it may have ended already

// Group makes a command the head of a process group of its own.
func Group(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// SignalGroup signals a command that was started after Group, and all that it
// started and that is still there.
func SignalGroup(cmd *exec.Cmd, s syscall.Signal) {
	_ = syscall.Kill(-cmd.Process.Pid, s) // nobody may be left
}
