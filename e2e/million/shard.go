//go:build linux

package million

import (
	"bufio"
	"context"
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

// Shard is a Redis server that writes nothing to disk. Its address stays the same when it is started again.
type Shard struct {
	*Process
	Addr string
	logs string
	port int
}

func newShard(logs string) (*Shard, error) {
	port, err := rig.FreePort()
	return &Shard{Addr: net.JoinHostPort(loopback, strconv.Itoa(port)), logs: logs, port: port}, err
}

// Start starts the server, and returns when it answers. It has no data.
func (s *Shard) Start(ctx context.Context) (err error) {
	port := strconv.Itoa(s.port)
	s.Process, err = launch(s.logs, "redis-"+port, exec.Command("redis-server", "--port", port, "--bind", loopback,
		"--save", "", "--appendonly", "no", "--dir", s.logs, "--io-threads", "1", "--tcp-backlog", "4096",
		// What waits for a node that cannot keep up for a moment; the default ends its connection at 32 MB.
		"--client-output-buffer-limit", "pubsub 256mb 128mb 60"))
	if err != nil {
		return err
	}
	return await(ctx, s.Process, func() error {
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

// Info is what the server tells about itself: the numbers of its INFO by their names.
func (s *Shard) Info() (map[string]float64, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "INFO\r\n"); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
	if err != nil {
		return nil, fmt.Errorf("%s answers %q to INFO", s.Addr, line)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			info[name] = v
		}
	}
	return info, nil
}
