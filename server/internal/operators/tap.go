package operators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gyrohq/gyro/observe"
)

const (
	defaultTapTime = 10 * time.Minute
	maxTapTime     = time.Hour
	maxTapBody     = 4 << 10
	maxEntity      = 1 << 10
	tapWriteTime   = 10 * time.Second
)

// TapNode is the part of gyro.Inspector that Taps call.
type TapNode interface {
	Tap(ctx context.Context, t observe.Tap) iter.Seq2[[]observe.Tapped, error]
}

// Taps serve the events of a user or a channel in the whole cluster, as lines of JSON, while the request is open
// (docs/tracing.md#taps). They do not check the sender.
type Taps struct {
	node    TapNode
	log     *slog.Logger
	stopped context.Context // ends with Close
	stop    context.CancelFunc
}

// NewTaps returns a handler of POST requests. In the body, type is user or channel, entity the name of one, and duration
// the seconds that the tap lasts: 600 by default, at most 3600. The lines of the answer are of observe.Tapped, or empty;
// the first one has event "started", the last one event "ended" with the reason.
func NewTaps(n TapNode, log *slog.Logger) *Taps {
	h := &Taps{node: n, log: log}
	h.stopped, h.stop = context.WithCancel(context.Background())
	return h
}

// Close ends the taps, because the server stops.
func (h *Taps) Close() { h.stop() }

type tapRequest struct {
	Type     string  `json:"type"`
	Entity   *string `json:"entity"`
	Duration int     `json:"duration"`
}

func readTap(w http.ResponseWriter, r *http.Request) (of observe.Tap, d time.Duration, err error) {
	var q tapRequest
	body, err := readBody(w, r, maxTapBody)
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		return of, 0, fmt.Errorf("the body is not the JSON object of a tap: %w", err)
	}
	of.Kind = observe.TapKind(q.Type)
	d = defaultTapTime
	if q.Duration != 0 {
		d = time.Duration(q.Duration) * time.Second
	}
	switch {
	case of.Kind != observe.TapUser && of.Kind != observe.TapChannel:
		err = errors.New(`type has to be "user" or "channel"`)
	case q.Entity == nil || of.Kind == observe.TapChannel && *q.Entity == "":
		err = errors.New("entity is missing: the ID of a user, which is empty for anonymous clients, or the name of a channel")
	case len(*q.Entity) > maxEntity || !utf8.ValidString(*q.Entity):
		err = fmt.Errorf("entity has to be valid UTF-8 of at most %d bytes", maxEntity)
	case q.Duration < 0 || d > maxTapTime:
		err = fmt.Errorf("duration has to be from 1 to %d seconds", int(maxTapTime/time.Second))
	default:
		of.Entity = *q.Entity
	}
	return of, d, err
}

// ServeHTTP implements http.Handler.
func (h *Taps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	of, d, err := readTap(w, r)
	if err != nil {
		http.Error(w, "Bad Request: "+err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), d, errOver)
	defer cancel()
	defer context.AfterFunc(h.stopped, cancel)()
	s := &tapStream{lines: newLines(w, tapWriteTime)}
	h.log.Info("tap begins", "type", string(of.Kind), "entity", of.Entity, "addr", r.RemoteAddr, "for_ms", d.Milliseconds())
	for events, failure := range h.node.Tap(ctx, of) {
		if err = failure; err == nil {
			err = s.writeEvents(events)
		}
		if err != nil {
			break
		}
	}
	why := h.reason(ctx, err)
	h.log.Info("tap has ended", "type", string(of.Kind), "entity", of.Entity, "addr", r.RemoteAddr, "events", s.events, "reason", why)
	if !s.begun {
		http.Error(w, "Service Unavailable: "+why, http.StatusServiceUnavailable)
		return
	}
	_ = s.writeLines([]observe.Tapped{{Time: time.Now(), Event: "ended", Reason: why}})
}

var errOver = errors.New("its time is over")

func (h *Taps) reason(ctx context.Context, err error) string {
	switch {
	case h.stopped.Err() != nil:
		return "the server stops"
	case errors.Is(context.Cause(ctx), errOver):
		return errOver.Error()
	case ctx.Err() != nil:
		return "the request was closed"
	}
	return strings.TrimPrefix(err.Error(), "gyro: ")
}

type tapStream struct {
	*lines
	events int
}

func (s *tapStream) writeEvents(events []observe.Tapped) error {
	if !s.begun {
		if err := s.writeLines([]observe.Tapped{{Time: time.Now(), Event: "started"}}); err != nil {
			return err
		}
	}
	s.events += len(events)
	if len(events) == 0 && !s.quiet() {
		return nil
	}
	return s.writeLines(events)
}

func (s *tapStream) writeLines(events []observe.Tapped) error {
	var out []byte
	for i := range events {
		line, err := json.Marshal(&events[i])
		if err != nil {
			return err
		}
		out = append(append(out, line...), '\n')
	}
	return s.write(out)
}
