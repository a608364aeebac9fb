//go:build linux

package million

import (
	"os/exec"
	"sync"
	"time"
)

// life has the processes of a program that is started again, one after the other. Its methods may be called from any goroutine.
type life struct {
	mu   sync.Mutex
	now  *Process
	past time.Duration // CPU of those before
}

// begin starts the program. The process before, if there was one, has ended.
func (l *life) begin(logs, name string, cmd *exec.Cmd) (*Process, error) {
	p, err := launch(logs, name, cmd)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.past += l.now.CPU()
	}
	l.now = p
	return p, nil
}

// process is the one that runs, or has ended last; nil before the first one.
func (l *life) process() *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// PID of the process.
func (l *life) PID() int { return l.process().PID() }

// CPU that all processes have used.
func (l *life) CPU() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past + l.now.CPU()
}

// Running tells whether the program runs.
func (l *life) Running() bool { return l.process().Running() }

func (l *life) ended() error { return l.process().ended() }
