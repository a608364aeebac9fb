package top

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const maxMetrics = 64 << 20

// Scrape returns a function that gets the metrics at a URL, in the text format of Prometheus.
func Scrape(client *http.Client, url string) func(ctx context.Context) (map[string]float64, error) {
	return func(ctx context.Context) (map[string]float64, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: HTTP status %d: is this the address of the metrics (--metrics)?", url, res.StatusCode)
		}
		return sums(io.LimitReader(res.Body, maxMetrics))
	}
}

// sums adds up the series of each name: no more of the format is needed.
func sums(r io.Reader) (map[string]float64, error) {
	out := make(map[string]float64)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.IndexAny(line, "{ ")
		if end <= 0 {
			continue
		}
		rest := line[end:]
		if rest[0] == '{' { // labels may hold anything, the value is behind the last brace
			rest = rest[strings.LastIndexByte(rest, '}')+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil {
			out[line[:end]] += v
		}
	}
	return out, lines.Err()
}
