package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
)

// MountHealth mounts PREFIX/live and PREFIX/ready, and PREFIX, which answers like the endpoint of health.mode.
func (w *Web) MountHealth(parts func() []gyro.Health) error {
	const key = "health.handler_prefix"
	c := &w.Settings.Health
	if !c.Enabled {
		return nil
	}
	live := Endpoint{Handler: Live(), CheckHost: true}
	ready := Endpoint{Handler: Ready(parts), CheckHost: true}
	byMode := ready
	if c.Mode == "live" {
		byMode = live
	}
	below := strings.TrimSuffix(CleanPrefix(c.HandlerPrefix), "/")
	err := w.Internal.Handle(key, c.HandlerPrefix, byMode)
	if err == nil {
		err = errors.Join(w.Internal.Handle(key, below+"/live", live), w.Internal.Handle(key, below+"/ready", ready))
	}
	return err
}

type healthReport struct {
	Status string       `json:"status"` // "ok" or "failing"
	Parts  []healthPart `json:"parts"`
}

type healthPart struct {
	Part string `json:"part"`
	// DelayMS is the delay of the newest canary.
	DelayMS float64 `json:"delay_ms"`
	Error   string  `json:"error,omitempty"`
}

// Live returns the liveness endpoint: 200 as long as the process serves HTTP.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte("{}"))
	})
}

// Ready returns the readiness endpoint: 200 if every part of the node delivers, else 503. The body names the parts with
// their errors and delays.
func Ready(parts func() []gyro.Health) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		report, status := healthReport{Status: "ok"}, http.StatusOK
		named := make(map[string]bool)
		for _, h := range parts() {
			p := healthPart{Part: h.Part, DelayMS: float64(h.Delay.Round(time.Microsecond)) / float64(time.Millisecond)}
			if h.Err != nil {
				report.Status, status = "failing", http.StatusServiceUnavailable
				p.Error = h.Err.Error()
			} else if named[h.Part] {
				continue // broker and presence manager share this one
			}
			named[h.Part] = true
			report.Parts = append(report.Parts, p)
		}
		body, err := json.Marshal(report)
		if err != nil {
			panic(err) // texts and numbers only
		}
		writeJSON(w, status, body)
	})
}

// Failing returns why a node with these parts is not ready.
func Failing(parts []gyro.Health) error {
	var errs []error
	for _, h := range parts {
		errs = append(errs, h.Err)
	}
	return errors.Join(errs...)
}

// Init returns the init endpoint, with which a browser opens its HTTP/2 connection before the WebSocket.
func Init() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte("{}"))
	})
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller is gone
}
