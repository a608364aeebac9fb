package web

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config/nearest"
)

// Guide answers requests for paths that are not served: it says which paths clients and backends should use.
type Guide struct {
	Refusals refusal.Reporter
	// WebSocket and API are the paths of these endpoints on this listener; empty for none.
	WebSocket, API string
	// Off are the keys that enable endpoints which are off, by path.
	Off map[string]string
}

// ServeHTTP implements http.Handler.
func (g *Guide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := "404 page not found"
	_, isMethod := api.MethodByName(path.Base(r.URL.Path))
	switch key := g.Off[r.URL.Path]; {
	case key != "":
		text += ": " + g.refuse(r, key, key+" is off")
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && g.WebSocket != "":
		text += ": " + g.refuse(r, "websocket.handler_prefix", "WebSocket clients connect to "+g.WebSocket)
	case isMethod && g.API != "":
		text += ": " + g.refuse(r, "http_api.handler_prefix", "the server API expects POST "+g.method(path.Base(r.URL.Path)))
	case g.API != "" && strings.HasPrefix(r.URL.Path, strings.TrimSuffix(g.API, "/")+"/"):
		text += ": " + g.refuse(r, "", "the server API has no such method"+similar(path.Base(r.URL.Path))+"; docs/http-api.md lists them")
	case g.WebSocket != "" && g.API != "":
		text += ": this is Gyro; WebSocket clients connect to " + g.WebSocket + ", backends send POST " + g.method("publish")
	case g.WebSocket != "":
		text += ": this is Gyro; WebSocket clients connect to " + g.WebSocket
	case g.API != "":
		text += ": this is Gyro; backends send POST " + g.method("publish")
	}
	http.Error(w, text, http.StatusNotFound)
}

// similar names the method that an unknown one may mean, if one comes near.
func similar(name string) string {
	names := make([]string, 0, len(api.Methods()))
	for _, m := range api.Methods() {
		names = append(names, m.String())
	}
	if meant := nearest.Of(name, names); meant != "" {
		return ": did you mean " + meant + "?"
	}
	return ""
}

// Before makes the guide answer WebSocket clients that ask for a path with a page.
func (g *Guide) Before(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			g.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// method is the path of a method of the server API.
func (g *Guide) method(name string) string { return strings.TrimSuffix(g.API, "/") + "/" + name }

// refuse logs a request that seems to have the wrong path, and returns the text.
func (g *Guide) refuse(r *http.Request, key, text string) string {
	answer := errors.New("not found")
	g.Refusals.Report(refusal.Refusal{Kind: "request refused: nothing is served at its path", Addr: r.RemoteAddr, Path: r.URL.Path},
		http.StatusNotFound, refusal.Because(answer, key, text))
	return text
}
