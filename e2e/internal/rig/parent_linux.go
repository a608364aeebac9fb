package rig

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps a killed test run from leaving servers behind.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
