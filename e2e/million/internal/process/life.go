//go:build linux

package process

import (
	"os/exec"
	"sync"
	"time"
)

// Life has the processes of a program that is started again. Any goroutine may call its methods.
type Life struct {
	mu   sync.Mutex
	now  *Process
	past time.Duration // CPU of the processes before
}

// Begin starts the program. The process before has ended.
func (l *Life) Begin(logs, name string, cmd *exec.Cmd) (*Process, error) {
	p, err := Launch(logs, name, cmd)
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

// Current is the last process; nil before the first one.
func (l *Life) Current() *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *Life) PID() int { return l.Current().PID() }

// CPU of all processes.
func (l *Life) CPU() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past + l.now.CPU()
}

func (l *Life) Running() bool { return l.Current().Running() }

// Ended is as Process.Ended.
func (l *Life) Ended() error { return l.Current().Ended() }
