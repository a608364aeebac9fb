package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gyrohq/gyro"
)

// healthReport is the body of the readiness endpoint.
type healthReport struct {
	Status string       `json:"status"` // "ok" or "failing"
	Parts  []healthPart `json:"parts"`
}

type healthPart struct {
	Part string `json:"part"`
	// DelayMS is how long the newest canary took, in milliseconds.
	DelayMS float64 `json:"delay_ms"`
	Error   string  `json:"error,omitempty"`
}

// Live returns the handler of the liveness endpoint: 200 with the body {} as long as the
// process serves HTTP.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte("{}"))
	})
}

// Ready returns the handler of the readiness endpoint: 200 as long as every part of the
// node delivers, else 503. The JSON body names the parts, what is wrong with them, and
// their delays.
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

// Failing returns why a node with these parts is not ready; nil if it is.
func Failing(parts []gyro.Health) error {
	var errs []error
	for _, h := range parts {
		errs = append(errs, h.Err)
	}
	return errors.Join(errs...)
}

// Init returns the handler of the init endpoint, with which a
// browser opens its HTTP/2 connection before the WebSocket. CORS headers and
// connection limits are middleware around it.
func Init() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !onlyMethod(w, r, http.MethodGet) {
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte("{}"))
	})
}
