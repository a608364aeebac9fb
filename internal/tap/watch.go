package tap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/observe"
)

const (
	// pause is how often events are fetched, patience how long nodes have to answer: less than lease together.
	pause    = 250 * time.Millisecond
	patience = 3 * time.Second
)

type request struct {
	ID     string          `json:"id"`
	Kind   observe.TapKind `json:"kind"`
	Entity string          `json:"entity"`
	End    bool            `json:"end,omitempty"`
}

type answer struct {
	Events  []observe.Tapped `json:"events,omitempty"`
	Dropped uint64           `json:"dropped,omitempty"`
}

// Answer answers a request of any node.
func (t *Table) Answer(data []byte) cluster.Answer {
	var r request
	if err := json.Unmarshal(data, &r); err != nil {
		return cluster.Answer{Code: cluster.CodeInvalid, Data: []byte(err.Error())}
	}
	if r.End {
		t.End(r.ID)
		return cluster.Answer{}
	}
	events, dropped, err := t.Fetch(r.ID, observe.Tap{Kind: r.Kind, Entity: r.Entity})
	if err != nil {
		return cluster.Answer{Code: cluster.CodeInvalid, Data: []byte(err.Error())}
	}
	text, err := json.Marshal(answer{events, dropped})
	if err != nil {
		return cluster.Answer{Code: cluster.CodeInternal, Data: []byte(err.Error())}
	}
	return cluster.Answer{Data: text}
}

// Survey asks all nodes.
type Survey func(ctx context.Context, op string, data []byte, to string) (map[string]cluster.Answer, error)

// Watch makes all nodes watch, and calls see with their events, until ctx ends or see returns an error.
func Watch(ctx context.Context, of observe.Tap, survey Survey, see func([]observe.Tapped) error) error {
	w := &watch{survey: survey, request: request{ID: uuid.NewString(), Kind: of.Kind, Entity: of.Entity}}
	defer w.end(context.WithoutCancel(ctx))
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		events, err := w.fetch(ctx)
		if err == nil {
			err = see(events)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type watch struct {
	survey     Survey
	request    request
	unanswered string // the last error about nodes that do not answer
}

func (w *watch) ask(ctx context.Context) (map[string]cluster.Answer, error) {
	data, err := json.Marshal(w.request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.survey(ctx, cluster.OpTap, data, "")
}

// Nodes that end does not reach end the tap by themselves.
func (w *watch) end(ctx context.Context) {
	w.request.End = true
	_, _ = w.ask(ctx)
}

// fetch returns the events of all nodes, by time. The error is from ctx, or of a node that does not watch.
func (w *watch) fetch(ctx context.Context) ([]observe.Tapped, error) {
	answers, missing := w.ask(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if missing != nil && (len(answers) == 0 || !errors.Is(missing, cluster.ErrNoAnswer)) {
		return nil, missing
	}
	var events []observe.Tapped
	for _, node := range slices.Sorted(maps.Keys(answers)) {
		of, err := decode(node, answers[node])
		if err != nil {
			return nil, err
		}
		events = append(events, of...)
	}
	slices.SortStableFunc(events, func(a, b observe.Tapped) int { return a.Time.Compare(b.Time) })
	unanswered := ""
	if missing != nil {
		unanswered = missing.Error()
	}
	if unanswered != w.unanswered && unanswered != "" {
		events = append(events, observe.Tapped{Time: time.Now(), Event: observe.TapSilent, Reason: unanswered})
	}
	w.unanswered = unanswered
	return events, nil
}

// decode finds no events in the answer of a node that does not know taps.
func decode(node string, a cluster.Answer) ([]observe.Tapped, error) {
	switch a.Code {
	case cluster.CodeOK:
	case cluster.CodeUnknownOp:
		return nil, nil
	default:
		return nil, fmt.Errorf("gyro: tap at node %s: %.200s", node, cmp.Or(string(a.Data), "no reason"))
	}
	var got answer
	if err := json.Unmarshal(a.Data, &got); err != nil {
		return nil, fmt.Errorf("gyro: tap at node %s: %w", node, err)
	}
	if got.Dropped > 0 {
		at := time.Now()
		if n := len(got.Events); n > 0 {
			at = got.Events[n-1].Time
		}
		got.Events = append(got.Events, observe.Tapped{Time: at, Node: node, Event: observe.TapDropped, Dropped: got.Dropped})
	}
	return got.Events, nil
}
