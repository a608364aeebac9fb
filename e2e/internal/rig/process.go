package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

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

func (p *process) Exited() <-chan struct{} { return p.exited }

func (p *process) PID() int { return p.cmd.Process.Pid }

// Program is a process that reports its progress in its output.
type Program struct{ *process }

// StartProgram runs a program, and returns when it has printed ready.
func StartProgram(cmd *exec.Cmd, ready string) (*Program, error) {
	p, err := run(cmd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	program := &Program{p}
	if err := program.Await(ctx, ready, 1); err != nil {
		p.Kill()
		return nil, err
	}
	return program, nil
}

func (p *Program) Printed(text string) int { return strings.Count(p.output.String(), text) }

// Await waits until the program has printed text so many times.
func (p *Program) Await(ctx context.Context, text string, times int) error {
	for {
		more := p.output.next()
		if p.Printed(text) >= times {
			return nil
		}
		select {
		case <-more:
		case <-p.exited:
			return fmt.Errorf("%q has ended: %s", p.cmd.Args, &p.output)
		case <-ctx.Done():
			return fmt.Errorf("%q has not printed %q %d times: %s", p.cmd.Args, text, times, &p.output)
		}
	}
}

type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // closed by the next Write; nil if no goroutine waits for it
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.buf.Write(p)
}

// next returns a channel that is closed at the next output.
func (o *output) next() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return o.more
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
