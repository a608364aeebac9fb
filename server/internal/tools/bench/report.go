package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Report is the result of a run. Times are in seconds, latencies in microseconds, sizes in bytes. Sections that the
// scenario does not have, or did not come to, are nil.
type Report struct {
	Scenario  string `json:"scenario"` // fanout, idle, storm, publish or emulation
	OK        bool   `json:"ok"`
	Error     string `json:"error,omitempty"` // why OK is not set
	Encoding  string `json:"proto"`
	Transport string `json:"transport,omitempty"`
	Channels  int    `json:"channels"`

	Connect *ConnectResult `json:"connect,omitempty"`
	Publish *PublishResult `json:"publish,omitempty"`
	Deliver *DeliverResult `json:"deliver,omitempty"`
	Idle    *IdleResult    `json:"idle,omitempty"`
	Storm   *StormResult   `json:"storm,omitempty"`

	Emulation *EmulationResult `json:"emulation,omitempty"`

	// By reason, without connections that the run closed.
	Disconnects map[string]int `json:"disconnects,omitempty"`
}

// ConnectResult has the connects of subscribers.
type ConnectResult struct {
	Connections int      `json:"connections"`
	Connected   int      `json:"connected"`
	Seconds     float64  `json:"seconds"`
	PerSecond   float64  `json:"per_second"`
	Latency     *Latency `json:"latency_us,omitempty"` // from the dial to the subscription
	Server      *Usage   `json:"server,omitempty"`     // per connection
}

// PublishResult has the answers to publications.
type PublishResult struct {
	Publications uint64   `json:"publications"`
	Requests     uint64   `json:"requests"` // answers; fewer with batches and broadcasts
	Size         int      `json:"size"`
	Seconds      float64  `json:"seconds"`
	PerSecond    float64  `json:"per_second"`           // publications
	Latency      *Latency `json:"latency_us,omitempty"` // from the request to its answer
	Server       *Usage   `json:"server,omitempty"`     // per publication
}

// DeliverResult has the deliveries to subscribers.
type DeliverResult struct {
	Expected   uint64   `json:"expected"`
	Received   uint64   `json:"received"` // each once
	Lost       uint64   `json:"lost"`
	Duplicated uint64   `json:"duplicated"`
	Reordered  uint64   `json:"reordered"`
	Corrupt    uint64   `json:"corrupt"` // not published with this content, or not in this channel
	Foreign    uint64   `json:"foreign"` // published by others; not a fault
	Seconds    float64  `json:"seconds"`
	PerSecond  float64  `json:"per_second"`
	Latency    *Latency `json:"latency_us,omitempty"` // from publishing to delivery
	Server     *Usage   `json:"server,omitempty"`     // per delivery
}

// IdleResult has the time without publications.
type IdleResult struct {
	Seconds     float64 `json:"seconds"`
	Connections int     `json:"connections"`      // at the end
	Server      *Usage  `json:"server,omitempty"` // during that time; memory grown since before they connected
}

// EmulationResult has the requests of clients of streams.
type EmulationResult struct {
	Requests  uint64   `json:"requests"`
	Replies   uint64   `json:"replies"` // that came by the streams
	Lost      uint64   `json:"lost"`    // replies that did not come
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"per_second"`
	Latency   *Latency `json:"latency_us,omitempty"` // from the request to its answer
	Server    *Usage   `json:"server,omitempty"`     // per request
}

// StormResult has the loss of all connections and their return.
type StormResult struct {
	Clients     int      `json:"clients"`
	Returned    int      `json:"returned"`
	Recovered   int      `json:"recovered"` // returned clients that the server told so
	Retries     uint64   `json:"retries"`   // attempts that failed
	Missed      uint64   `json:"missed"`    // publications that came with recovery
	Live        uint64   `json:"live"`      // publications from the first attempt until all were back
	AwaySeconds float64  `json:"away_seconds"`
	Seconds     float64  `json:"seconds"` // from the first attempt until all were back
	PerSecond   float64  `json:"per_second"`
	Away        *Latency `json:"away_us,omitempty"`   // from a client's cut to its recovery
	Return      *Latency `json:"return_us,omitempty"` // from a client's first attempt to its recovery
	// Server is the usage from the first attempt until all were back, Live publications included, per returning client.
	Server *Usage `json:"server,omitempty"`
}

// Usage is the use of CPU and memory by the server's process.
type Usage struct {
	CPUSeconds    float64 `json:"cpu_seconds"`
	CPUPercent    float64 `json:"cpu_percent"` // of one core
	CPUMicrosEach float64 `json:"cpu_us_each"`
	MemoryBytes   int64   `json:"memory_bytes"` // at the end
	GrownBytes    int64   `json:"memory_grown_bytes"`
	BytesEach     int64   `json:"memory_bytes_each"`
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

func round(x float64) float64 { return math.Round(x*100) / 100 }

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return round(float64(n) / d.Seconds())
}

func (r *run) execute(scenario string, steps func(*run, *Report) error) (*Report, error) {
	r.reportProgress()
	rep := &Report{Scenario: scenario, Encoding: r.target.Encoding.String(), Channels: len(r.channels)}
	if len(r.subscribers)+len(r.publishers) > 0 {
		rep.Transport = r.dialer.Kind.Name
	}
	err := steps(r, rep)
	rep.Disconnects = r.lostConnections()
	r.close()
	if err == nil {
		err = rep.faults()
	}
	rep.OK = err == nil
	if err != nil {
		rep.Error = err.Error()
	}
	return rep, err
}

func (rep *Report) faults() error {
	var faults []string
	count := func(n uint64, what string) {
		if n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n, what))
		}
	}
	if d := rep.Deliver; d != nil {
		count(d.Lost, "messages lost")
		count(d.Duplicated, "messages delivered twice")
		count(d.Reordered, "messages out of order")
		count(d.Corrupt, "messages corrupt")
	}
	if e := rep.Emulation; e != nil {
		count(e.Lost, "replies lost")
	}
	if s := rep.Storm; s != nil {
		count(uint64(s.Clients-s.Returned), "clients did not return")
		count(uint64(s.Returned-s.Recovered), "clients not recovered")
	}
	lost := 0
	for _, n := range rep.Disconnects {
		lost += n
	}
	count(uint64(lost), "connections lost")
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFailed, strings.Join(faults, ", "))
}

// WriteJSON writes the report as one JSON object, indented.
func (rep *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rep)
}

// WriteText writes the report for people.
func (rep *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	if rep.Transport != "" {
		fmt.Fprintf(&b, "transport  %s, %s\n", rep.Transport, rep.Encoding)
	}
	if c := rep.Connect; c != nil {
		fmt.Fprintf(&b, "connect    %d of %d connections in %s s, %s/s\n", c.Connected, c.Connections, short(c.Seconds), group(c.PerSecond))
		b.WriteString(c.Latency.line("time") + c.Server.line("connection"))
	}
	if p := rep.Publish; p != nil {
		fmt.Fprintf(&b, "publish    %s publications of %d bytes in %s s, %s/s, %s answers\n",
			group(float64(p.Publications)), p.Size, short(p.Seconds), group(p.PerSecond), group(float64(p.Requests)))
		b.WriteString(p.Latency.line("answer") + p.Server.line("publication"))
	}
	if s := rep.Storm; s != nil {
		s.text(&b)
	}
	if d := rep.Deliver; d != nil {
		fmt.Fprintf(&b, "deliver    %s of %s messages in %s s, %s/s\n", group(float64(d.Received)), group(float64(d.Expected)), short(d.Seconds), group(d.PerSecond))
		fmt.Fprintf(&b, "           lost %d, twice %d, out of order %d, corrupt %d, foreign %d\n", d.Lost, d.Duplicated, d.Reordered, d.Corrupt, d.Foreign)
		b.WriteString(d.Latency.line("latency") + d.Server.line("delivery"))
	}
	if i := rep.Idle; i != nil {
		fmt.Fprintf(&b, "idle       %d connections for %s s\n", i.Connections, short(i.Seconds))
		b.WriteString(i.Server.line("connection"))
	}
	if e := rep.Emulation; e != nil {
		fmt.Fprintf(&b, "emulation  %s requests in %s s, %s/s; %s replies, %d lost\n",
			group(float64(e.Requests)), short(e.Seconds), group(e.PerSecond), group(float64(e.Replies)), e.Lost)
		b.WriteString(e.Latency.line("answer") + e.Server.line("request"))
	}
	for _, reason := range slices.Sorted(maps.Keys(rep.Disconnects)) {
		fmt.Fprintf(&b, "lost       %d connections: %s\n", rep.Disconnects[reason], reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *StormResult) text(b *strings.Builder) {
	fmt.Fprintf(b, "storm      %d of %d clients back %s s after the first attempt, %s/s, after %s s away; %d retries\n",
		s.Returned, s.Clients, short(s.Seconds), group(s.PerSecond), short(s.AwaySeconds), s.Retries)
	fmt.Fprintf(b, "           %d recovered, with %s missed publications, while %s were published\n",
		s.Recovered, group(float64(s.Missed)), group(float64(s.Live)))
	b.WriteString(s.Away.line("away") + s.Return.line("return") + s.Server.line("client"))
}

func (l *Latency) line(what string) string {
	if l == nil {
		return ""
	}
	ms := func(us int64) string { return short(float64(us) / 1000) }
	return fmt.Sprintf("           %s ms: min %s, p50 %s, p90 %s, p99 %s, p99.9 %s, max %s\n",
		what, ms(l.Min), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max))
}

func (u *Usage) line(each string) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("           server: CPU %s s (%s%% of a core), %s us per %s; memory %s MB, grown by %s KB per %s\n",
		short(u.CPUSeconds), short(u.CPUPercent), short(u.CPUMicrosEach), each,
		short(float64(u.MemoryBytes)/(1<<20)), short(float64(u.BytesEach)/(1<<10)), each)
}

func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

func group(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
