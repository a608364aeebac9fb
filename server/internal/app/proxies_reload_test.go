package app

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// What a reload changes of proxies that have a name counts for the next call of clients that are connected
// already; a call under way ends with the answer of the backend that was asked.
func TestNamedProxyReload(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		asked, release := make(chan struct{}), make(chan struct{})
		slow := &testBackend{t: t, asked: map[string][]string{}, answers: map[string]func() string{
			"RPC": func() string {
				close(asked)
				<-release
				return `{"result":{"data":"slow"}}`
			},
		}}
		slow.overHTTP()
		named := func(edit func(p *config.Proxy)) func(*config.Config) {
			return proxied(b, func(cfg *config.Config) {
				p := cfg.RPC.Proxy
				edit(&p)
				cfg.Proxies = []config.NamedProxy{{Name: "named", Proxy: p}}
				cfg.RPC.WithoutNamespace.ProxyName = "named"
			})
		}
		s := startServer(t, named(func(p *config.Proxy) { p.Endpoint = slow.endpoint("RPC") }))
		s.expected = "named"
		b.answer("RPC", `{"result":{"data":"b"}}`)
		waiting, other := s.connect("u"), s.connect("v")
		id := waiting.Start(`"rpc":{"method":"m"}`)
		<-asked
		call := func(want string) {
			t.Helper()
			got, reply := other.Outcome(`"rpc":{"method":"m"}`)
			if got == "ok" {
				got = string(reply.RPC.Data)
			}
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		s.reload(named(func(*config.Proxy) {})) // another endpoint
		call(`"b"`)
		s.reload(named(func(p *config.Proxy) { p.BinaryEncoding = true }))
		call(`"b"`)
		if got := b.last("RPC"); !strings.Contains(got, `"encoding":"binary"`) {
			t.Error(got)
		}
		s.reload(named(func(p *config.Proxy) { p.Timeout = time.Nanosecond }))
		call("error 100")
		close(release)
		if r := waiting.Await(id); r.Error != nil || string(r.RPC.Data) != `"slow"` {
			t.Errorf("%+v", r)
		}
		s.reload(proxied(b, func(cfg *config.Config) { cfg.RPC.WithoutNamespace.ProxyEnabled = false }))
		call("error 108")
		bad := testConfig(named(func(p *config.Proxy) { p.Endpoint = "http://" }))
		bad.HTTPServer = s.cfg.HTTPServer
		if err := s.app.Reload(bad); err == nil || !strings.Contains(err.Error(), "proxies[0](named).endpoint") {
			t.Errorf("%v", err)
		}
		call("error 108") // nothing has changed
	})
}
