//go:build linux

package operator

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/wire"
)

const (
	healthPause   = 500 * time.Millisecond
	overviewPause = 2 * time.Second
	scrapePause   = 5 * time.Second
)

type watch struct {
	stand *stand
	work  sync.WaitGroup

	mu   sync.Mutex
	said map[string]map[string]*sayings

	recording *os.File
	packed    *gzip.Writer
	lines     *json.Encoder
}

// sayings are the complaints of a node at one question. Without one, all is well.
type sayings struct {
	now  map[string]time.Time // since when
	past []saying
}

type saying struct {
	text     string
	from, to time.Time
}

func (s *sayings) hear(complaints []string, at time.Time) {
	before := s.now
	s.now = make(map[string]time.Time)
	for _, text := range complaints {
		text = plain(text)
		s.now[text] = at
		if !before[text].IsZero() {
			s.now[text] = before[text]
		}
	}
	for text, since := range before {
		if s.now[text].IsZero() {
			s.past = append(s.past, saying{text, since, at})
		}
	}
}

func (s *sayings) between(begin, end time.Time) (list []saying) {
	all := slices.Clone(s.past)
	for text, since := range s.now {
		all = append(all, saying{text, since, end})
	}
	for _, say := range all {
		if say.to.After(begin) && !say.from.After(end) {
			list = append(list, saying{say.text, later(say.from, begin), say.to})
		}
	}
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// summary has a line for each complaint, in the order of their begin: its nodes, first and last second, and number.
func summary(by map[string][]saying, begin time.Time) (lines []string) {
	type sum struct {
		saying
		nodes []string
		times int
	}
	var sums []*sum
	for _, node := range slices.Sorted(maps.Keys(by)) {
		for _, say := range by[node] {
			i := slices.IndexFunc(sums, func(s *sum) bool { return s.text == say.text })
			if i < 0 {
				i = len(sums)
				sums = append(sums, &sum{saying: say})
			}
			s := sums[i]
			s.times++
			s.to = later(s.to, say.to)
			if say.from.Before(s.from) {
				s.from = say.from
			}
			if !slices.Contains(s.nodes, node) {
				s.nodes = append(s.nodes, node)
			}
		}
	}
	slices.SortFunc(sums, func(a, b *sum) int { return cmp.Or(a.from.Compare(b.from), strings.Compare(a.text, b.text)) })
	for _, s := range sums {
		often := ""
		if s.times > len(s.nodes) {
			often = fmt.Sprintf(", %d times", s.times)
		}
		lines = append(lines, fmt.Sprintf("%s: %s (%.0f-%.0f s%s)", strings.Join(s.nodes, ", "), s.text, s.from.Sub(begin).Seconds(), s.to.Sub(begin).Seconds(), often))
	}
	return lines
}

var (
	durations = regexp.MustCompile(`\b(for|within|after|in) \d[\d.]* ?(µs|ms|s|m|h)?[\d.]*(ms|s)?\b`)
	moments   = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z`)
	sentinels = regexp.MustCompile(`(sentinel sentinel-\d: [^;]*; ){2}sentinel sentinel-\d: [^;]*`)
	ports     = regexp.MustCompile(`\b127\.0\.0\.\d+:\d+->`)
)

// plain leaves out times and ports, which differ each time.
func plain(text string) string {
	const most = 250
	text = strings.ReplaceAll(text, "\n", "; ")
	text = sentinels.ReplaceAllString(text, "no Sentinel answers")
	text = moments.ReplaceAllString(text, "…")
	text = ports.ReplaceAllString(durations.ReplaceAllString(text, "$1 …"), "…->")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

func newWatch(s *stand, out string) (*watch, error) {
	w := &watch{stand: s, said: make(map[string]map[string]*sayings)}
	var err error
	if w.recording, err = os.Create(filepath.Join(out, "scrapes.jsonl.gz")); err != nil {
		return nil, err
	}
	w.packed = gzip.NewWriter(w.recording)
	w.lines = json.NewEncoder(w.packed)
	ctx, cancel := context.WithCancel(s.ctx)
	for _, n := range s.nodes {
		w.repeat(ctx, healthPause, func() { w.hear("/health/ready", n, s.ready(n)...) })
		w.repeat(ctx, overviewPause, func() { w.hear("overview", n, s.overview(n)...) })
		w.repeat(ctx, scrapePause, func() { w.scrape(n) })
	}
	s.tb.Cleanup(func() {
		cancel()
		w.work.Wait()
	})
	return w, nil
}

// repeat pauses from begin to begin.
func (w *watch) repeat(ctx context.Context, pause time.Duration, do func()) {
	w.work.Go(func() {
		for next := time.Now(); ctx.Err() == nil; next = later(next.Add(pause), time.Now()) {
			wire.Sleep(ctx, time.Until(next))
			if ctx.Err() == nil {
				do()
			}
		}
	})
}

func (w *watch) hear(what string, n *node, complaints ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[what] == nil {
		w.said[what] = make(map[string]*sayings)
	}
	if w.said[what][n.name] == nil {
		w.said[what][n.name] = &sayings{}
	}
	for i := range complaints {
		complaints[i] = w.stand.names.Replace(complaints[i])
	}
	w.said[what][n.name].hear(complaints, time.Now())
}

// scraping is as patient as Prometheus would be.
var scraping = &http.Client{Timeout: scrapePause}

func (w *watch) scrape(n *node) {
	at := time.Now()
	status, body, err := w.stand.get(scraping, n, "/metrics")
	text := string(body)
	if err != nil || status != http.StatusOK {
		text = ""
	}
	switch {
	case text == "":
		w.hear("gyro_node_ready", n, "no answer")
	case !strings.Contains(text, "\ngyro_node_ready 1\n"):
		w.hear("gyro_node_ready", n, "0")
	default:
		w.hear("gyro_node_ready", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines != nil {
		_ = w.lines.Encode(map[string]any{"at": at.UnixMilli(), "instance": n.name, "text": text}) // Close tells of errors
	}
}

func (w *watch) close() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = nil
	return w.recording.Name(), errors.Join(w.packed.Close(), w.recording.Close())
}

func (w *watch) told(begin, end time.Time) (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(w.said)) {
		by := make(map[string][]saying)
		for node, s := range w.said[what] {
			by[node] = s.between(begin, end)
		}
		for _, line := range summary(by, begin) {
			lines = append(lines, what+" of "+line)
		}
	}
	return lines
}

// logSizes are the lengths of the logs when a step began.
type logSizes struct {
	nodes map[string]int64
	front int
}

func (s *stand) logSizes() logSizes {
	m := logSizes{nodes: make(map[string]int64), front: len(s.frontText())}
	for _, n := range s.nodes {
		if info, err := os.Stat(n.log()); err == nil {
			m.nodes[n.name] = info.Size()
		}
	}
	return m
}

func (s *stand) frontText() string { return s.frontLog + s.front.Log() }

func (s *stand) logged(since logSizes) (lines []string) {
	found := make(warnings)
	for _, n := range s.nodes {
		text, err := os.ReadFile(n.log())
		if err != nil {
			lines = append(lines, err.Error())
			continue
		}
		found.read(s.names.Replace(string(text[min(since.nodes[n.name], int64(len(text))):])), n.name)
	}
	lines = append(lines, found.lines()...)
	front := nginxErrors(s.frontText()[since.front:])
	for _, line := range slices.Sorted(maps.Keys(front)) {
		lines = append(lines, fmt.Sprintf("nginx: %s: %d", line, front[line]))
	}
	return lines
}

func times(by map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, fmt.Sprintf("%s %d", name, by[name]))
	}
	return strings.Join(list, ", ")
}

// warnings are lines from level warn on: by level and message, then by other attributes, then by node.
type warnings map[string]map[string]map[string]int

func (w warnings) read(text, node string) {
	for line := range strings.Lines(text) {
		var l struct {
			Level, Message, Error, Reason, Key, Keys string
			Suppressed                               int
		}
		if json.Unmarshal([]byte(line), &l) != nil {
			l.Level, l.Message = "error", "a line that is no JSON: "+strings.TrimSpace(line)
		}
		if !slices.Contains([]string{"warn", "error", "fatal"}, l.Level) {
			continue
		}
		what, more := l.Level+" `"+l.Message+"`", plain(strings.TrimSpace(strings.Join([]string{l.Error, l.Reason, l.Key, l.Keys}, " ")))
		if w[what] == nil {
			w[what] = make(map[string]map[string]int)
		}
		if w[what][more] == nil {
			w[what][more] = make(map[string]int)
		}
		w[what][more][node] += 1 + l.Suppressed
	}
}

// lines has the attributes that most lines of a message have.
func (w warnings) lines() (lines []string) {
	const most = 2
	for _, what := range slices.Sorted(maps.Keys(w)) {
		count := func(more string) (n int) {
			for _, c := range w[what][more] {
				n += c
			}
			return n
		}
		all := slices.SortedFunc(maps.Keys(w[what]), func(a, b string) int {
			return cmp.Or(count(b)-count(a), strings.Compare(a, b))
		})
		total := make(map[string]int)
		var said []string
		for i, more := range all {
			for node, n := range w[what][more] {
				total[node] += n
			}
			if i < most && more != "" {
				said = append(said, more)
			}
		}
		if len(all) > most {
			said = append(said, fmt.Sprintf("%d more", len(all)-most))
		}
		line := what + ": " + times(total)
		if said != nil {
			line += " (" + strings.Join(said, "; ") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

var nginxLine = regexp.MustCompile(`^\S+ \S+ \[(\w+)\] \d+#\d+: (?:\*\d+ )?(.*)$`)

func nginxErrors(text string) map[string]int {
	counts := make(map[string]int)
	for line := range strings.Lines(text) {
		m := nginxLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		what, _, _ := strings.Cut(m[2], ", client: ")
		counts[m[1]+" `"+what+"`"]++
	}
	return counts
}
