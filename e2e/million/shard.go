//go:build linux

package million

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

// patience is how long a program may take until it answers.
const patience = time.Minute

// Shard is a Redis server. It writes nothing to disk unless it is told to. Its address stays the same when it is started again.
type Shard struct {
	life
	Addr string
	logs string
	port int
	kept bool // it has its data in a file
}

func newShard(logs string) (*Shard, error) {
	port, err := rig.FreePort()
	return &Shard{Addr: net.JoinHostPort(loopback, strconv.Itoa(port)), logs: logs, port: port}, err
}

// Start starts the server, and returns when it answers. It has the data that were kept.
func (s *Shard) Start(ctx context.Context) error {
	port, kept := strconv.Itoa(s.port), "no"
	if s.kept {
		kept = "yes"
	}
	p, err := s.begin(s.logs, "redis-"+port, exec.Command("redis-server", "--port", port, "--bind", loopback,
		"--save", "", "--dir", s.logs, "--appendonly", kept, "--appenddirname", "data-"+port,
		// What is written is written before the answer; nothing waits for the disk, as no fault here is one of the machine.
		"--appendfsync", "no", "--io-threads", "1", "--tcp-backlog", "4096",
		// What waits for a node that cannot keep up for a moment; the default ends its connection at 32 MB.
		"--client-output-buffer-limit", "pubsub 256mb 128mb 60"))
	if err != nil {
		return err
	}
	return await(ctx, p, func() error {
		_, err := s.Info()
		return err
	})
}

// await polls until a process answers.
func await(ctx context.Context, p *Process, answers func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := answers()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer within %v: %w\n%s", p.Name, patience, err, p.tail())
		}
		select {
		case <-p.Exited():
			return p.ended()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Info is what the server tells about itself: the numbers of its INFO by their names. It is an error while the server loads its data.
func (s *Shard) Info() (map[string]float64, error) {
	lines, err := s.Do("INFO")
	if err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(lines[0]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			info[name] = v
		}
	}
	if info["loading"] != 0 {
		return nil, fmt.Errorf("%s loads its data", s.Addr)
	}
	return info, nil
}

// Do gives the server a command, over a connection of its own, and returns its answer: one text, or those of a flat list.
func (s *Shard) Do(command ...string) ([]string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(text); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	kind, first, err := answer(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s.Addr, command[0], err)
	}
	if kind != '*' {
		return []string{first}, nil
	}
	size, err := strconv.Atoi(first)
	list := make([]string, max(0, size))
	for i := range list {
		if _, list[i], err = answer(r); err != nil {
			return nil, err
		}
	}
	return list, err
}

// answer reads a part of an answer: a text or a number; of a list its size.
func answer(r *bufio.Reader) (kind byte, text string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	kind, text = line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '-':
		return kind, "", errors.New(text)
	case '$':
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 {
			return kind, "", err
		}
		data := make([]byte, size+2)
		_, err = io.ReadFull(r, data)
		return kind, string(data[:size]), err
	}
	return kind, text, nil
}
