package httpapi

import "net/http"

// Health returns the handler of the health endpoint (config.md 5.1): it answers
// as long as the process serves HTTP, and checks nothing else.
func Health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte("{}"))
	})
}

// Init returns the handler of the init endpoint (config.md 5.1), with which a
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
