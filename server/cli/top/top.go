// Package top is a live view of the nodes of a cluster for a terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/gyrohq/gyro/server/cli"
)

// Source of what is shown.
type Source struct {
	// Nodes asks for the nodes of the cluster.
	Nodes func(ctx context.Context) ([]cli.Node, error)
	// Metrics returns the sums of the counters of one node; nil: they are not shown.
	Metrics func(ctx context.Context) (map[string]float64, error)
	// Interval between two looks.
	Interval time.Duration
}

// Run shows the view on the terminal until the user or ctx ends it.
func Run(ctx context.Context, s Source, options ...tea.ProgramOption) error {
	m := model{source: s, ctx: ctx, width: 80}
	_, err := tea.NewProgram(m, append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithAltScreen(), tea.WithoutSignalHandler()}, options...)...).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// sample is what one look found.
type sample struct {
	at      time.Time
	nodes   []cli.Node
	metrics map[string]float64
	err     error
}

// tick says that it is time for the next look.
type tick struct{}

// model is the state of the view. Its methods have no side effects; commands do the work.
type model struct {
	source       Source
	ctx          context.Context
	last, before sample // before is the one that rates are taken to
	order        int    // column that nodes are sorted by
	paused       bool
	width        int
	height       int
}

// columns that nodes are sorted by, with the key that chooses each.
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

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return m.look }

// look asks the server.
func (m model) look() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, max(5*time.Second, m.source.Interval))
	defer cancel()
	s := sample{at: time.Now()}
	if s.nodes, s.err = m.source.Nodes(ctx); s.err == nil && m.source.Metrics != nil {
		s.metrics, s.err = m.source.Metrics(ctx)
	}
	return s
}

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case sample:
		if msg.err != nil {
			m.last.err = msg.err
		} else if !m.paused {
			m.before, m.last = m.last, msg
		}
		return m, tea.Tick(m.source.Interval, func(time.Time) tea.Msg { return tick{} })
	case tick:
		return m, m.look
	case tea.KeyMsg:
		return m.pressed(msg.String())
	}
	return m, nil
}

func (m model) pressed(key string) (tea.Model, tea.Cmd) {
	switch key {
	case "q", "esc", "ctrl+c":
		return m, tea.Quit
	case "p", " ":
		m.paused = !m.paused
		return m, nil
	}
	if i := slices.IndexFunc(columns, func(c struct {
		key, title string
		of         func(cli.Node) int
	}) bool {
		return c.key == key
	}); i >= 0 {
		m.order = i
	}
	return m, nil
}

// View implements tea.Model.
func (m model) View() string {
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

// clock is the time of a sample, blank before the first.
func clock(at time.Time) string {
	if at.IsZero() {
		return "--:--:--"
	}
	return at.Format(time.TimeOnly)
}

// table lists the nodes with what has changed since the sample before.
func (m model) table() string {
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

// rated are the counters whose rates are shown, without the prefix of their namespace.
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

// rates lists what the node of the metrics does in a second.
func (m model) rates() string {
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

// family finds a counter under whichever prefix the server has.
func family(metrics map[string]float64, name string) (float64, bool) {
	for _, prefix := range []string{"gyro_", "centrifugo_"} {
		if v, ok := metrics[prefix+name]; ok {
			return v, true
		}
	}
	return 0, false
}

// fit cuts what does not fit the terminal, and replaces what could control it.
func (m model) fit(text string) string {
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
	return strings.Join(lines, "\n")
}
