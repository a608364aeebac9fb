package app

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/api"
)

// guide answers requests for paths that are not served: it says where clients and backends
// are expected. It is a http.Handler.
type guide struct {
	refusals refusal.Reporter
	// webSocket and api are the paths of these endpoints on this listener; empty for none.
	webSocket, api string
	// off are the keys that enable endpoints which are off, by path.
	off map[string]string
}

// ServeHTTP implements http.Handler.
func (g *guide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := "404 page not found"
	_, isMethod := api.MethodByName(path.Base(r.URL.Path))
	switch key := g.off[r.URL.Path]; {
	case key != "":
		text += ": " + g.refuse(r, key, key+" is off")
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && g.webSocket != "":
		text += ": " + g.refuse(r, "websocket.handler_prefix", "WebSocket clients connect to "+g.webSocket)
	case isMethod && g.api != "":
		text += ": " + g.refuse(r, "http_api.handler_prefix", "the server API expects POST "+g.method(path.Base(r.URL.Path)))
	case g.webSocket != "" && g.api != "":
		text += ": this is Gyro; WebSocket clients connect to " + g.webSocket + ", backends send POST " + g.method("publish")
	case g.webSocket != "":
		text += ": this is Gyro; WebSocket clients connect to " + g.webSocket
	case g.api != "":
		text += ": this is Gyro; backends send POST " + g.method("publish")
	}
	http.Error(w, text, http.StatusNotFound)
}

// before has the guide answer WebSocket clients that ask for a path with a page.
func (g *guide) before(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			g.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// method is the path of a method of the server API.
func (g *guide) method(name string) string { return strings.TrimSuffix(g.api, "/") + "/" + name }

// refuse logs a request that seems to have the wrong path, and returns the text.
func (g *guide) refuse(r *http.Request, key, text string) string {
	answer := errors.New("not found")
	g.refusals.Report(refusal.Refusal{Kind: "request refused: nothing is served at its path", Addr: r.RemoteAddr, Path: r.URL.Path},
		http.StatusNotFound, refusal.Because(answer, key, text))
	return text
}
