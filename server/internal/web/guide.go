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

// Guide answers requests for unknown paths, and names the right ones.
type Guide struct {
	Refusals       refusal.Reporter
	WebSocket, API string
	// Off has the keys that enable endpoints which are off, by path.
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

// Before answers WebSocket clients that ask for the path of a page.
func (g *Guide) Before(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			g.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

func (g *Guide) method(name string) string { return strings.TrimSuffix(g.API, "/") + "/" + name }

func (g *Guide) refuse(r *http.Request, key, text string) string {
	answer := errors.New("not found")
	g.Refusals.Report(refusal.Refusal{Kind: "request refused: nothing is served at its path", Addr: r.RemoteAddr, Path: r.URL.Path},
		http.StatusNotFound, refusal.Because(answer, key, text))
	return text
}
