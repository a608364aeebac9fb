// Package dev is for trying Gyro out: a configuration that works on loopback without any
// settings, and a demo page.
package dev

import (
	"crypto/rand"
	_ "embed"
	"html/template"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/server/config"
)

// Namespace of the demo page's channel.
const Namespace = "chat"

// Channel that the demo page is subscribed to.
const Channel = Namespace + ":index"

// TokenTTL is the lifetime of demo tokens.
const TokenTTL = 24 * time.Hour

// Config returns a configuration for loopback, with fresh secrets: nothing of it
// can be reached from another machine or from another site's pages.
func Config(port int) *config.Config {
	cfg := config.DefaultConfig()
	cfg.HTTPServer.Address, cfg.HTTPServer.Port = "127.0.0.1", port
	cfg.HTTPAPI.Key = rand.Text()
	cfg.Client.Token.HMACSecretKey = rand.Text() + rand.Text()
	cfg.Client.AllowedOrigins = []string{
		"http://localhost:" + strconv.Itoa(port), "http://127.0.0.1:" + strconv.Itoa(port),
	}
	cfg.Health.Enabled = true
	cfg.Log.Level = "warn"
	cfg.Channel.Namespaces = []config.Namespace{{Name: Namespace, ChannelOptions: demoOptions()}}
	return cfg
}

func demoOptions() config.ChannelOptions {
	o := config.DefaultConfig().Channel.WithoutNamespace
	o.Presence, o.JoinLeave, o.ForcePushJoinLeave = true, true, true
	o.HistorySize, o.HistoryTTL, o.ForceRecovery = 100, 10*time.Minute, true
	o.AllowSubscribeForClient, o.AllowPublishForSubscriber = true, true
	o.AllowPresenceForSubscriber, o.AllowHistoryForSubscriber = true, true
	return o
}

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Parse(page))

// Page serves the demo page. Each load of the page is another user; sign makes the user's
// connection token.
func Page(sign func(user string) (string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		// Otherwise a page of another site could read the token, by a name of its own that
		// resolves to loopback.
		if !local(r.Host) {
			http.Error(w, "the demo page is for localhost only", http.StatusForbidden)
			return
		}
		user := User()
		token, err := sign(user)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Frame-Options", "DENY")
		_ = pageTemplate.Execute(w, struct{ Channel, User, Token string }{Channel, user, token}) // the client went away
	})
}

func local(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

var (
	adjectives = []string{"amber", "brisk", "calm", "daring", "eager", "fair", "gentle", "happy", "jolly", "keen", "lively", "merry", "noble", "proud", "quick", "sunny"}
	animals    = []string{"badger", "crane", "dolphin", "falcon", "gecko", "heron", "ibex", "lynx", "marten", "newt", "otter", "panda", "quail", "raven", "seal", "wren"}
)

// User makes up the name of a demo user.
func User() string {
	return adjectives[mathrand.IntN(len(adjectives))] + "-" + animals[mathrand.IntN(len(animals))]
}
