//go:build linux

package million

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/million/internal/process"
)

// Shard is a Redis server, without data on disk unless it is told to, and with the same address when it is started
// again.
type Shard struct {
	process.Life
	Addr string
	logs string
	port int
	kept bool // it has its data in a file
}

func newShard(logs string) (*Shard, error) {
	port, err := rig.FreePort()
	return &Shard{Addr: net.JoinHostPort(loopback, strconv.Itoa(port)), logs: logs, port: port}, err
}

func (s *Shard) Start(ctx context.Context) error {
	port, kept := strconv.Itoa(s.port), "no"
	if s.kept {
		kept = "yes"
	}
	p, err := s.Begin(s.logs, "redis-"+port, exec.Command("redis-server", "--port", port, "--bind", loopback,
		"--save", "", "--dir", s.logs, "--appendonly", kept, "--appenddirname", "data-"+port,
		// Commands are written before the answer; nothing waits for the disk, as no fault here is the machine's.
		"--appendfsync", "no", "--io-threads", "1", "--tcp-backlog", "4096",
		// The bound for a node that cannot keep up for a moment; by default its connection ends at 32 MB.
		"--client-output-buffer-limit", "pubsub 256mb 128mb 60"))
	if err != nil {
		return err
	}
	return p.Await(ctx, func() error {
		_, err := s.Info()
		return err
	})
}

// Info returns the numbers of INFO by their names. It fails while the server loads its data.
func (s *Shard) Info() (map[string]float64, error) {
	answer, err := s.Do("INFO")
	if err != nil {
		return nil, err
	}
	text, err := answer.ToString()
	if err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(text) {
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

const askTime = 5 * time.Second

// Do gives the server a command over a connection of its own.
func (s *Shard) Do(command ...string) (rueidis.RedisMessage, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, ConnWriteTimeout: askTime,
	})
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	answer, err := client.Do(ctx, client.B().Arbitrary(command...).Build()).ToMessage()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", s.Addr, command[0], err)
	}
	return answer, err
}
