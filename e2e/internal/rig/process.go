package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// startTimeout bounds how long a process may take until it answers.
const startTimeout = 20 * time.Second

// process is a program that the rig runs. It does not outlive the rig.
type process struct {
	cmd    *exec.Cmd
	output output
	exited chan struct{} // closed when the process has ended
}

func run(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the output says how it ended
		close(p.exited)
	}()
	return p, nil
}

// await polls until the process answers, and kills it if it does not.
func (p *process) await(answers func() bool) error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if answers() {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("the process has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
	p.Kill()
	return fmt.Errorf("no answer within %v", startTimeout)
}

// Kill ends the process by SIGKILL.
func (p *process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

// Exited is closed when the process has ended.
func (p *process) Exited() <-chan struct{} { return p.exited }

// PID of the process.
func (p *process) PID() int { return p.cmd.Process.Pid }

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
