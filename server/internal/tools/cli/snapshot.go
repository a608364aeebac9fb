package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gyrohq/gyro/protocol"
)

// Snapshot prints connections.
type Snapshot struct {
	Remote
	// A connection must match all that are not empty.
	User, Client, Channel, Expression string
	// Labels are NAME=VALUE, or NAME for any value; a connection must have all.
	Labels []string
}

const maxConnection = 64 << 20

func (s *Snapshot) request() ([]byte, error) {
	q := map[string]any{}
	for name, value := range map[string]string{"user": s.User, "client": s.Client, "channel": s.Channel, "expression": s.Expression} {
		if value != "" {
			q[name] = value
		}
	}
	var all []*protocol.FilterNode
	for _, label := range s.Labels {
		name, value, given := strings.Cut(label, "=")
		switch {
		case name == "":
			return nil, fmt.Errorf("label: %q is not NAME=VALUE or NAME", label)
		case given:
			all = append(all, &protocol.FilterNode{Key: name, Cmp: "eq", Val: value})
		default:
			all = append(all, &protocol.FilterNode{Key: name, Cmp: "ex"})
		}
	}
	switch len(all) {
	case 0:
	case 1:
		q["label_filter"] = all[0]
	default:
		q["label_filter"] = &protocol.FilterNode{Op: "and", Nodes: all}
	}
	return json.Marshal(q)
}

// Run prints connections as they come, and their number in the end. It is an error if nodes did not answer to the end.
func (s *Snapshot) Run(ctx context.Context, out *Output) error {
	body, err := s.request()
	if err != nil {
		return err
	}
	api, err := s.Caller()
	if err != nil {
		return err
	}
	answer, err := api.Open(ctx, "snapshot", body)
	if err != nil {
		return err
	}
	defer answer.Close()
	lines := bufio.NewScanner(answer)
	lines.Buffer(make([]byte, 64<<10), maxConnection)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, `{"summary":`) {
			return s.end(line, out)
		}
		if line != "" {
			if err := out.line(line); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the answer was cut off: %w", err)
	}
	return fmt.Errorf("the answer was cut off: %w", io.ErrUnexpectedEOF)
}

func (s *Snapshot) end(line string, out *Output) error {
	var last struct {
		Summary struct {
			Connections        int
			Nodes              map[string]int
			Incomplete, Failed string
		}
	}
	if err := json.Unmarshal([]byte(line), &last); err != nil {
		return fmt.Errorf("the last line of the answer is malformed: %w", err)
	}
	sum := &last.Summary
	out.message("%d connections of %d nodes", sum.Connections, len(sum.Nodes))
	if sum.Failed != "" {
		out.message("connections for which the expression fails are left out: %s", sum.Failed)
	}
	if sum.Incomplete != "" {
		return errors.New("the snapshot is not complete: " + sum.Incomplete)
	}
	return nil
}
