// Package top is a live view of the nodes of a cluster for a terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/gyrohq/gyro/server/internal/tools/cli"
)

// Source is the server to show.
type Source struct {
	Nodes func(ctx context.Context) ([]cli.Node, error)
	// Metrics returns the sums of the counters of one node; nil: they are not shown.
	Metrics  func(ctx context.Context) (map[string]float64, error)
	Interval time.Duration
}

// Run shows the view until the user or ctx ends it.
func Run(ctx context.Context, s Source) error {
	t, err := open(os.Stdin, os.Stdout)
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, s, t.keys(), t.draw), t.close())
}

func run(ctx context.Context, s Source, keys <-chan string, draw func(*model) error) error {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	samples := make(chan sample)
	go func() {
		for looking.Err() == nil {
			select {
			case samples <- s.look(looking):
			case <-looking.Done():
			}
			select {
			case <-time.After(s.Interval):
			case <-looking.Done():
			}
		}
	}()
	m := model{width: 80}
	for {
		if err := draw(&m); err != nil {
			return err
		}
		select {
		case taken := <-samples:
			m.take(taken)
		case key, more := <-keys:
			if !more || m.press(key) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

type sample struct {
	at      time.Time
	nodes   []cli.Node
	metrics map[string]float64
	err     error
}

type model struct {
	last, before sample // before is the one that rates are taken to
	order        int    // column that nodes are sorted by
	paused       bool
	width        int
	height       int
}

var columns = []struct {
	key, title string
	of         func(cli.Node) int
}{
	{"n", "NODE", nil},
	{"c", "CLIENTS", func(n cli.Node) int { return n.NumClients }},
	{"u", "USERS", func(n cli.Node) int { return n.NumUsers }},
	{"s", "SUBS", func(n cli.Node) int { return n.NumSubs }},
	{"h", "CHANNELS", func(n cli.Node) int { return n.NumChannels }},
}

func (s *Source) look(ctx context.Context) sample {
	ctx, cancel := context.WithTimeout(ctx, max(5*time.Second, s.Interval))
	defer cancel()
	out := sample{at: time.Now()}
	if out.nodes, out.err = s.Nodes(ctx); out.err == nil && s.Metrics != nil {
		out.metrics, out.err = s.Metrics(ctx)
	}
	return out
}

func (m *model) take(s sample) {
	if s.err != nil {
		m.last.err = s.err
	} else if !m.paused {
		m.before, m.last = m.last, s
	}
}

// press reports whether the key ends the view.
func (m *model) press(key string) (end bool) {
	switch key {
	case "q", "\x1b", "\x03": // q, escape, Ctrl-C
		return true
	case "p", " ":
		m.paused = !m.paused
	}
	for i, c := range columns {
		if c.key == key {
			m.order = i
		}
	}
	return false
}

// view returns lines without control characters.
func (m *model) view() []string {
	var b strings.Builder
	total := cli.Node{}
	for _, n := range m.last.nodes {
		total.NumClients += n.NumClients
		total.NumSubs += n.NumSubs
	}
	fmt.Fprintf(&b, "gyro top   %s   nodes %d   clients %d   subscriptions %d", clock(m.last.at), len(m.last.nodes), total.NumClients, total.NumSubs)
	if m.paused {
		b.WriteString("   paused")
	}
	b.WriteString("\n")
	if m.last.err != nil {
		fmt.Fprintf(&b, "the server does not answer: %v\n", m.last.err)
	}
	b.WriteString("\n" + m.table())
	if m.last.metrics != nil {
		b.WriteString("\n" + m.rates())
	}
	b.WriteString("\nq quit   p pause   sort by: n node  c clients  u users  s subscriptions  h channels\n")
	return m.fit(b.String())
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "--:--:--"
	}
	return at.Format(time.TimeOnly)
}

func (m *model) table() string {
	nodes := slices.Clone(m.last.nodes)
	if of := columns[m.order].of; of != nil {
		slices.SortStableFunc(nodes, func(a, b cli.Node) int { return of(b) - of(a) })
	}
	before := make(map[string]cli.Node)
	for _, n := range m.before.nodes {
		before[n.UID] = n
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	titles := make([]string, len(columns))
	for i, c := range columns {
		if titles[i] = c.title; i == m.order {
			titles[i] += "*"
		}
	}
	fmt.Fprintln(w, strings.Join(titles, "\t")+"\tUPTIME\tVERSION")
	for _, n := range nodes {
		cells := []string{n.Name}
		was, known := before[n.UID]
		for _, c := range columns[1:] {
			cell := fmt.Sprint(c.of(n))
			if d := c.of(n) - c.of(was); known && d != 0 {
				cell += fmt.Sprintf(" (%+d)", d)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(w, strings.Join(append(cells, (time.Duration(n.Uptime)*time.Second).String(), n.Version), "\t"))
	}
	_ = w.Flush() // into memory
	return b.String()
}

var rated = []struct{ name, title string }{
	{"node_messages_sent_count", "messages between nodes, sent"},
	{"node_messages_received_count", "messages between nodes, received"},
	{"transport_messages_sent", "messages to clients"},
	{"transport_messages_sent_size", "bytes to clients"},
	{"transport_messages_received", "messages from clients"},
	{"api_command_duration_seconds_count", "API commands"},
	{"api_command_errors_total", "API commands that failed"},
	{"client_num_reply_errors", "replies with an error"},
	{"client_num_server_disconnects", "disconnects by the server"},
	{"client_refusals_total", "limits reached"},
}

func (m *model) rates() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PER SECOND, OF THE NODE WITH THE METRICS")
	seconds := m.last.at.Sub(m.before.at).Seconds()
	for _, r := range rated {
		now, ok := family(m.last.metrics, r.name)
		was, known := family(m.before.metrics, r.name)
		if !ok {
			continue
		}
		text := "-"
		if known && seconds > 0 && now >= was { // less: the node has started anew
			text = fmt.Sprintf("%.1f", (now-was)/seconds)
		}
		fmt.Fprintf(w, "%s\t%s\n", r.title, text)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// family finds a counter under any prefix.
func family(metrics map[string]float64, name string) (float64, bool) {
	for _, prefix := range []string{"gyro_", "centrifugo_"} {
		if v, ok := metrics[prefix+name]; ok {
			return v, true
		}
	}
	return 0, false
}

func (m *model) fit(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if m.height > 0 && len(lines) > m.height {
		lines = lines[:m.height]
	}
	for i, line := range lines {
		r := []rune(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return unicode.ReplacementChar
			}
			return r
		}, line))
		lines[i] = string(r[:min(len(r), m.width)])
	}
	return lines
}
