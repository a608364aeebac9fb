package app

import (
	"context"
	"errors"
	"slices"

	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

type part struct {
	name string
	// start may be nil. After an error it has left nothing running.
	start func(ctx context.Context) error
	// stop may be called several times, and without start.
	stop func(ctx context.Context) error
}

// parts returns the parts in the order of the start: each needs only parts before it. Shutdown stops them in reverse.
func (a *App) parts() []part {
	drained := make(chan struct{})
	var listenersClosed func() error
	return []part{
		{"traces", func(ctx context.Context) error { return a.tracer.Start(ctx, a.node.UID()) }, a.tracer.Shutdown},
		{name: "goroutines", stop: quietly(a.serving.Wait)},
		{name: "changed log levels", stop: quietly(logs.Of(a.log).Close)},
		{"certificates", func(context.Context) error { return a.certs.PrepareCache() }, quietly(func() { a.stopRunning() })},
		{name: "keys of tokens", stop: quietly(a.jwks.Close)},
		{name: "requests", stop: func(context.Context) error { return listenersClosed() }},
		{name: "proxies", stop: quietly(func() { a.inForce.Load().Backend.Proxies.Close() })},
		{"engines", a.connectEngines, a.engines.Close},
		{name: "gRPC calls", stop: a.waitForGRPC},
		{"user status", a.status.Start, quietly(a.status.Close)},
		{"pushed metrics", func(ctx context.Context) error { return a.meters.start(ctx, a) }, a.meters.stop},
		{"node", a.runNode, a.node.Shutdown},
		{"consumers", a.consumers.Connect, a.consumers.Shutdown},
		{name: "clients", stop: func(ctx context.Context) error {
			defer close(drained)
			return a.node.Drain(ctx, min(a.cfg.Shutdown.DrainTime, a.cfg.Shutdown.Timeout/2))
		}},
		{"notifications", a.notified.Start, quietly(a.notified.Close)},
		{"listeners", a.open, func(ctx context.Context) error {
			listenersClosed = a.closeListeners(ctx, drained)
			return nil
		}},
		{name: "requests of operators", stop: quietly(func() {
			a.taps.Close()
			a.leave()
		})},
		{name: "readiness", stop: func(ctx context.Context) error {
			a.withdraw(ctx)
			a.stopping.Store(true)
			return nil
		}},
	}
}

func quietly(stop func()) func(context.Context) error {
	return func(context.Context) error {
		stop()
		return nil
	}
}

func startAll(ctx context.Context, parts []part) error {
	for i, p := range parts {
		if p.start == nil {
			continue
		}
		if err := p.start(ctx); err != nil {
			started := slices.DeleteFunc(slices.Clone(parts[:i]), func(p part) bool { return p.start == nil })
			return errors.Join(err, stopAll(context.Background(), started))
		}
	}
	return nil
}

func stopAll(ctx context.Context, parts []part) error {
	var errs []error
	for _, p := range slices.Backward(parts) {
		errs = append(errs, p.stop(ctx))
	}
	return errors.Join(errs...)
}

func (a *App) connectEngines(ctx context.Context) error {
	if err := a.engines.Connect(ctx); err != nil {
		return errors.Join(err, a.engines.Close(context.Background()))
	}
	return nil
}

func (a *App) runNode(context.Context) error {
	if err := a.node.Run(); err != nil {
		return err
	}
	a.log.Info("node is running", a.engines.Describe()...)
	return nil
}

func (a *App) waitForGRPC(ctx context.Context) error {
	var errs []error
	for _, g := range a.grpc {
		errs = append(errs, g.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

func (a *App) background() {
	a.consumers.Run(a.failed)
	a.web.WarnExposed()
	a.inForce.Load().prefetch()
	running, stop := context.WithCancel(context.Background())
	a.stopRunning = stop
	a.serving.Go(func() { a.certs.Run(running) })
	a.serving.Go(func() { a.meters.remember(running, a.node) })
	for _, g := range a.grpc {
		a.log.Info("listening", g.Attrs()...)
		a.serve(g.Serve)
	}
	for _, l := range a.listeners {
		a.log.Info("listening", l.Attrs()...)
		a.serve(l.Serve)
		a.serve(l.ServeHTTP3)
	}
}
