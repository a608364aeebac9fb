// Command firing tells which alert rules were pending and fired, by the query engine of Prometheus:
//
//	go run ./tools/firing [-rules deploy/prometheus/alerts.yml] [-step 5s] RECORDING
//
// The recording is compressed by gzip and has a line of JSON for each scrape of a node, in their order: {"at": 1767225600000, "instance":
// "rt-1", "text": "…"}, with the time in Unix milliseconds, and without text if the node did not answer. For each alert and series the
// command prints a line of JSON, with times in Unix milliseconds: pending, fires (0 if it did not), and last.
package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gyrohq/gyro/tools/internal/alertrules"
	"github.com/gyrohq/gyro/tools/internal/scrapes"
)

func main() {
	rules := flag.String("rules", "deploy/prometheus/alerts.yml", "`file` with rules")
	step := flag.Duration("step", 5*time.Second, "time between evaluations")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: firing [-rules FILE] [-step 5s] RECORDING")
	}
	text, err := os.ReadFile(*rules)
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.Open(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	out := bufio.NewWriter(os.Stdout)
	if err := errors.Join(tell(context.Background(), text, file, *step, out), out.Flush()); err != nil {
		log.Fatal(err)
	}
}

type scrape struct {
	At       int64  `json:"at"`
	Instance string `json:"instance"`
	Text     string `json:"text"`
}

type alert struct {
	Alert    string            `json:"alert"`
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels"`
	Pending  int64             `json:"pending"`
	Fires    int64             `json:"fires"`
	Last     int64             `json:"last"`
}

func tell(ctx context.Context, rules []byte, recording io.Reader, step time.Duration, out io.Writer) error {
	list, err := alertrules.Read(rules)
	if err != nil {
		return err
	}
	asked, err := asks(list)
	if err != nil {
		return err
	}
	store := make(scrapes.Store)
	when, err := fill(store, recording, asked)
	if err != nil {
		return err
	}
	when.Step = step
	encoder := json.NewEncoder(out)
	for i := range list {
		spans, err := store.Spans(ctx, &list[i], when)
		if err != nil {
			return err
		}
		for _, s := range spans {
			a := alert{
				Alert: list[i].Alert, Severity: list[i].Labels["severity"], Labels: s.Labels,
				Pending: s.Pending.Milliseconds(), Fires: s.Fires.Milliseconds(), Last: s.Last.Milliseconds(),
			}
			if err := encoder.Encode(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func asks(list []alertrules.Rule) (func(string) bool, error) {
	names := make(map[string]bool)
	for _, r := range list {
		e, err := parser.ParseExpr(r.Expr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Alert, err)
		}
		for _, name := range alertrules.Selected(e) {
			for _, part := range []string{"_bucket", "_count", "_sum"} { // of a histogram
				names[strings.TrimSuffix(name, part)] = true
			}
			names[name] = true
		}
	}
	return func(name string) bool { return names[name] }, nil
}

func fill(store scrapes.Store, recording io.Reader, keep func(string) bool) (r scrapes.Range, err error) {
	unpacked, err := gzip.NewReader(recording)
	if err != nil {
		return r, err
	}
	for lines := json.NewDecoder(unpacked); ; {
		var s scrape
		if err := lines.Decode(&s); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return r, err
		}
		at := time.Duration(s.At) * time.Millisecond
		if err := store.Scrape(scrapes.Target{Cluster: "production", Instance: s.Instance}, s.Text, at, keep); err != nil {
			return r, fmt.Errorf("%s at %v: %w", s.Instance, time.UnixMilli(s.At), err)
		}
		if r.From == 0 {
			r.From = at
		}
		r.To = at
	}
}
