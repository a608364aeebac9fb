//go:build unix

package rig

import "syscall"

// Pause suspends the server (SIGSTOP): its connections stay, and it does not answer.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) } // it may have ended already

// Reload asks the server to read its configuration again (SIGHUP).
func (s *Server) Reload() { _ = s.cmd.Process.Signal(syscall.SIGHUP) } // it may have ended already

// Resume lets a suspended server go on.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) } // it may have ended already
