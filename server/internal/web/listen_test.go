package web

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

// TestPanic: the panic of a handler ends its own connection, and is logged.
func TestPanic(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logs.To(&out, "debug", false)
	external := newSite((&Web{Config: Config{Settings: config.DefaultConfig(), Log: log}}).newGate)
	must(0, external.Handle("", "/", Endpoint{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") })}))
	must(0, external.Handle("", "/ok", Endpoint{Handler: http.NotFoundHandler()}))
	l := newListener("external", "127.0.0.1:0", external, secure{}, false, log)
	must(0, l.Open(new(Reserve)))
	served := make(chan error)
	go func() { served <- l.Serve() }()
	url := "http://" + l.Address()
	if res, err := http.Get(url); err == nil {
		res.Body.Close()
		t.Errorf("answer: %s", res.Status)
	}
	if res, err := http.Get(url + "/ok"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("afterwards: %v", err)
	} else {
		res.Body.Close()
	}
	l.Server.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), `"level":"error"`) || !strings.Contains(out.String(), "oops") || !strings.Contains(out.String(), "listen_test.go") ||
		!strings.Contains(out.String(), `"status":500,"path":"/"`) {
		t.Errorf("log: %s", out.String())
	}
}
