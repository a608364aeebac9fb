package brokertest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

var validName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func testTraits(f *fixture) { f.checkTraits(f.broker) }

func (f *fixture) checkTraits(e broker.Engine) {
	t := &f.traits
	if !validName.MatchString(t.Name) {
		f.Errorf("Name is %q", t.Name)
	}
	if again := e.Describe(); again.Name != t.Name || again.Local != t.Local || offered(&again) != offered(t) {
		f.Errorf("the traits are %+v before Run and %+v after it", *t, again)
	}
	if (t.Versions || t.Delta) && !t.History {
		f.Errorf("Versions %v and Delta %v need History", t.Versions, t.Delta)
	}
	if t.Maps != nil && !t.History {
		f.Errorf("Maps need History")
	}
	for method, offered := range map[string]bool{
		"PublishBatch": t.Batch != nil, "Change": t.Maps != nil, "Positions": t.Positions != nil, "RunControl": t.Control != nil,
		"Health": t.Health != nil, "Metrics": t.Metrics != nil,
	} {
		if _, has := reflect.TypeOf(e).MethodByName(method); has && !offered {
			f.Errorf("the engine has a method %s, and its traits do not offer it", method)
		}
	}
	if t.Health != nil {
		wait.Success(f, "health", func() (err error) {
			for _, h := range t.Health() {
				err = errors.Join(err, h.Err)
			}
			return err
		})
	}
	if t.Metrics != nil {
		f.checkMetrics(t.Metrics())
	}
}

func (f *fixture) checkMetrics(list []broker.Metric) {
	type kind struct {
		help, labels string
		counter      bool
	}
	kinds, seen := make(map[string]kind), make(map[string]bool)
	for _, m := range list {
		k := kind{m.Help, fmt.Sprint(slices.Sorted(maps.Keys(m.Labels))), m.Counter}
		if known, ok := kinds[m.Name]; !validName.MatchString(m.Name) || m.Help == "" || ok && known != k {
			f.Errorf("metric %+v, others of its name are %+v", m, known)
		}
		if id := fmt.Sprint(m.Name, m.Labels); seen[id] {
			f.Errorf("metric %s comes twice", id)
		} else {
			seen[id] = true
		}
		kinds[m.Name] = k
	}
}

func testNotOffered(f *fixture) {
	twice := func(what string, pub channel.Publication, opts broker.PublishOptions) []event {
		f.Helper()
		ch := f.channel()
		for range 2 {
			if r := f.publishPub(ch, new(pub), opts); r.Suppressed != "" {
				f.Errorf("%s: %+v", what, r)
			}
		}
		return f.wantEvents(ch, 2)
	}
	opts := f.kept(10)
	if !f.traits.History {
		for _, e := range twice("History", channel.Publication{}, opts) {
			f.equal("offset", e.Pub.Offset, uint64(0))
		}
		_, err := f.broker.History(f.ctx, f.name(), broker.HistoryFilter{})
		for _, err := range []error{err, f.broker.RemoveHistory(f.ctx, f.name())} {
			if !errors.Is(err, protocol.ErrorNotAvailable) {
				f.Errorf("an engine without History answers %v", err)
			}
		}
	}
	if !f.traits.Versions {
		twice("Versions", channel.Publication{Version: 5}, opts)
	}
	if !f.traits.Delta {
		opts.Delta = true
		for _, e := range twice("Delta", channel.Publication{}, opts) {
			f.equal("previous publication", e.Prev == nil, true)
		}
	}
	if !f.traits.Idempotency {
		opts.IdempotencyKey = "key"
		twice("Idempotency", channel.Publication{}, opts)
	}
}

// testLocal calls, in the handler, methods that must not wait for it. An engine that is not local hangs here.
func testLocal(f *fixture) {
	if !f.traits.Local {
		f.Skip("the engine is not local")
	}
	ch, other := f.channel(), f.name()
	f.events.Hook = func() {
		f.mustGo(f.broker.Subscribe(f.ctx, ch, other))
		_, err := f.broker.History(f.ctx, ch, broker.HistoryFilter{Limit: -1})
		f.mustGo(err)
		f.mustGo(f.broker.Unsubscribe(f.ctx, ch, other))
	}
	f.publish(ch, "1", f.kept(1))
	f.wantEvents(ch, 1)
}
