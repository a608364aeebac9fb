package logs

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"time"
)

const maxBody = 4 << 10

// LevelHandler answers POST requests of operators, which it does not check: {"level":…,"duration":seconds} sets the
// level for a time, {"level":""} restores the configured one. The answer is a State. c may be nil.
func LevelHandler(c *Control, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Level    *string `json:"level"`
			Duration int     `json:"duration"`
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil && len(body) > 0 {
			err = json.Unmarshal(body, &q)
		}
		if err == nil && q.Level != nil && c != nil {
			if err = c.SetLevel(*q.Level, time.Duration(q.Duration)*time.Second); err == nil {
				log.Warn("level of the log changed by an operator", "level", c.State().Level, "configured", c.State().Configured,
					"seconds", q.Duration, "addr", r.RemoteAddr)
			}
		}
		switch {
		case err != nil:
			http.Error(w, "Bad Request: "+err.Error(), http.StatusBadRequest)
		case c == nil:
			http.Error(w, "Not Implemented: the log of this server is not its own", http.StatusNotImplemented)
		default:
			answer(w, c.State())
		}
	})
}

// RefusalsHandler answers requests of operators, which it does not check, with a list of Refused and the time when
// counting began. c may be nil.
func RefusalsHandler(c *Control) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var out struct {
			Since    *time.Time `json:"since,omitempty"`
			Refusals []Refused  `json:"refusals"`
		}
		if c == nil {
			http.Error(w, "Not Implemented: the log of this server is not its own", http.StatusNotImplemented)
			return
		}
		kinds, since := c.Refusals().List()
		if out.Refusals = kinds; !since.IsZero() {
			out.Since = &since
		}
		answer(w, out)
	})
}

func answer(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the operator may be gone
}
