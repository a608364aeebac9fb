package main

// mutant is a small fault in the product.
type mutant struct {
	Name string
	// File has Old exactly once, and New in its place with the fault.
	File, Old, New string
	// Promise that the fault breaks.
	Promise string
	// By is what finds the fault if the simulator's usual clients and channels cannot.
	By string
}

// table has the mutants, by the part of the product.
var table = []mutant{
	// Delivery and positions.
	{
		Name: "gap-passes", File: "internal/position/track.go",
		Old:     "\t\tif offset > p.Offset {\n\t\t\treturn Gap\n\t\t}\n\t\treturn Past\n",
		New:     "\t\tif offset < p.Offset {\n\t\t\treturn Past\n\t\t}\n",
		Promise: "positioned subscriptions never skip silently",
	},
	{
		Name: "past-passes", File: "internal/session/deliver.go",
		Old: "\tcase step == position.Past:\n", New: "\tcase step == position.Past && m.Pub == nil:\n",
		Promise: "no publication comes twice",
	},
	{
		Name: "epoch-ignored-in-delivery", File: "internal/position/track.go",
		Old: "\tif m.Epoch != p.Epoch {\n", New: "\tif p.Epoch == \"\" {\n",
		Promise: "publications of another stream do not continue a position",
	},
	{
		Name: "check-passes", File: "internal/session/deliver.go",
		Old: "b.terms.Keys == nil && !b.at.Check(m.Message) {", New: "b.terms.Keys == nil && !b.at.Check(m.Message) && m.Pub == nil {",
		Promise: "a loss that no publication shows is found",
	},
	{
		Name: "check-ignores-epoch", File: "internal/position/track.go",
		Old: "\tif m.Pub.Offset != p.Offset || m.Epoch != p.Epoch {\n", New: "\tif m.Pub.Offset != p.Offset {\n",
		Promise: "a position in a stream that is no more is found",
	},
	{
		Name: "checks-never-run", File: "internal/position/runner.go",
		Old: "\t\tr.check(part, true)\n", New: "\t\t_ = part\n",
		Promise: "a loss that no publication shows is found",
	},
	{
		Name: "loss-ignored", File: "internal/engines/fanout.go",
		Old: "{ f.Lost(match) }", New: "{}",
		Promise: "a loss that an engine tells of is found at once",
	},
	{
		Name: "patch-without-base", File: "internal/position/track.go",
		Old: "(p.Keyed || p.base != 0 && m.Prev.Offset == p.base)", New: "true",
		Promise: "a patch builds on what the client has",
	},
	{
		Name: "patch-for-all", File: "internal/hub/message.go",
		Old: "\tif form&Patched == 0 {\n\t\tbase = nil\n\t}\n", New: "",
		Promise: "a patch builds on what the client has",
	},
	{
		Name: "recovered-base-unknown", File: "client/stream.go",
		Old: "\tif p.Key == \"\" {\n\t\ts.base = data\n", New: "\tif p.Key == \"\" {\n\t\tif s.base == nil || p.Delta {\n\t\t\ts.base = data\n\t\t}\n",
		Promise: "the Go client applies a patch to the publication before it",
	},
	// Recovery.
	{
		Name: "recovery-ignores-epoch", File: "internal/recovery/recovery.go",
		Old: "\tcase r.Since.Epoch != \"\" && r.Since.Epoch != h.Top.Epoch:\n", New: "\tcase r.Since.Epoch == \"_\" && r.Since.Epoch != h.Top.Epoch:\n",
		Promise: "a position of another stream is not recovered",
	},
	{
		Name: "recovery-one-too-few", File: "internal/recovery/recovery.go",
		Old: "\t\tm.Publications = pubs\n\t\treturn m, true\n", New: "\t\tm.Publications = pubs[:len(pubs)-1]\n\t\treturn m, true\n",
		Promise: "a client that recovers gets all that it missed",
	},
	{
		Name: "recovery-over-a-gap", File: "internal/recovery/recovery.go",
		Old: "\tcase pubs[0].Offset != r.Since.Offset+1 || ", New: "\tcase ",
		Promise: "a client whose publications are not kept is told",
	},
	{
		Name: "recovery-without-buffer", File: "internal/session/subscribe.go",
		Old: "\tfor _, m := range setup.buffer {\n", New: "\tfor _, m := range setup.buffer[:0] {\n",
		Promise: "publications during the subscribe follow the reply",
	},
	{
		Name: "delivery-before-reply", File: "internal/session/deliver.go",
		Old: "\tif b.state != subLive {\n\t\tb.bufferMessage(m.Message)\n", New: "\tif b.state != subLive && b.state != subAttaching {\n\t\tb.bufferMessage(m.Message)\n",
		Promise: "no message of a channel comes before the reply",
	},
	{
		Name: "flight-dropped", File: "internal/engines/flights.go",
		Old: "\t\tif !f.landed(k) {\n\t\t\treturn\n\t\t}\n", New: "\t\tif !f.landed(k) || fl != nil {\n\t\t\treturn\n\t\t}\n",
		Promise: "each read has an answer",
	},
	// The end of subscriptions and clients.
	{
		Name: "end-without-word", File: "internal/session/unsubscribe.go",
		Old: "\ts.endWith(b, u)\n}\n\nfunc (s *Session) pushUnsubscribe", New: "\ts.end(b, u)\n}\n\nfunc (s *Session) pushUnsubscribe",
		Promise: "the client is told that its subscription has ended",
	},
	{
		Name: "late-attach-stays", File: "internal/session/session.go",
		Old: "\t\ts.detachLate(e)\n", New: "",
		Promise: "a client that goes while it subscribes does not stay",
		By:      "a command that ends a client whose connection was lost, while its earlier subscribe is done",
	},
	{
		Name: "unsubscribe-while-subscribing", File: "internal/session/subscribe.go",
		Old: "\tcase setup.ended != nil:\n", New: "\tcase setup.ended != nil && setup.catchup != nil:\n",
		Promise: "each command has an answer",
	},
	{
		Name: "unsubscribe-without-answer", File: "internal/session/session.go",
		Old: "\t\ts.afterDetach(e)\n", New: "",
		Promise: "each command has an answer",
	},
	{
		Name: "told-before-connected", File: "internal/client/execute.go",
		Old: "it.Connected && x.has().Unsubscribed", New: "x.has().Unsubscribed",
		Promise: "no handler of a client is called before Connected",
	},
	{
		Name: "pong-not-missed", File: "internal/session/timers.go",
		Old: "\t\ts.Close(protocol.DisconnectNoPong)\n", New: "",
		Promise: "a connection whose client is silent ends",
	},
	{
		Name: "pipelined-commands-lost", File: "internal/session/pending.go",
		Old: "\tp.Add(rest)\n", New: "\tp.Add(rest[:0])\n",
		Promise: "each command has an answer",
	},
	// Effects.
	{
		Name: "effects-last-first", File: "internal/client/effectqueue.go",
		Old: "\tq.effects = append(q.effects, e)\n", New: "\tq.effects = slices.Insert(q.effects, 0, e)\n",
		Promise: "effects of a client keep their order",
	},
	{
		Name: "completion-lost", File: "internal/client/effectqueue.go",
		Old: "\tif !t.Has(effect.Completes) {\n", New: "\tif !t.Has(effect.Completes) || len(q.effects) > 2 {\n",
		Promise: "each command has an answer",
	},
	{
		Name: "answer-before-engine", File: "application.go",
		Old: "\t_, err = (*Node)(a).publish(ctx, ch, data, checked, &reply.Options)\n", New: "\tgo func() { _, _ = (*Node)(a).publish(context.WithoutCancel(ctx), ch, data, checked, &reply.Options) }()\n",
		Promise: "a publication that was acknowledged is in the stream",
	},
	{
		Name: "failure-acknowledged", File: "application.go",
		Old: "\treturn ofClient(err, reply.Data == nil)\n}\n\n// changeMap", New: "\t_ = ofClient(err, reply.Data == nil)\n\treturn nil\n}\n\n// changeMap",
		Promise: "a publication that was acknowledged is in the stream",
	},
	{
		Name: "idempotency-ignored", File: "publish.go",
		Old: "\tp.Time = n.rules.Clocks.Stamp()\n", New: "\tp.Time, opts.IdempotencyKey = n.rules.Clocks.Stamp(), \"\"\n",
		Promise: "a publication with an idempotency key is in the stream once",
	},
	// Presence, joins and leaves.
	{
		Name: "presence-stays", File: "internal/engines/engines.go",
		Old: "\tif it.Presence {\n", New: "\tif it.Presence && it.Info == nil {\n",
		Promise: "a client that has gone does not stay present",
	},
	{
		Name: "presence-of-another", File: "internal/engines/engines.go",
		Old: "g.Presence.Remove(ctx, it.Channel, o.ID(), it.Info.User)", New: "g.Presence.Remove(ctx, it.Channel, it.Info.User, it.Info.User)",
		Promise: "a client that has gone does not stay present",
	},
	{
		Name: "presence-removed-once", File: "internal/engines/presence.go",
		Old: "\t\tif !m.insert(e) {\n\t\t\treturn err\n\t\t}\n", New: "\t\treturn err\n",
		Promise: "a removal of presence that failed is repeated",
	},
	{
		Name: "presence-not-renewed", File: "internal/session/timers.go",
		Old: "\tif len(renew) > 0 {\n", New: "\tif len(renew) < 0 {\n",
		Promise: "who is subscribed is present",
	},
	{
		Name: "presence-not-added", File: "internal/engines/engines.go",
		Old: "\t\tif it.Info != nil {\n\t\t\terr = g.Presence.Add", New: "\t\tif it.Info != nil && it.Appears != nil {\n\t\t\terr = g.Presence.Add",
		Promise: "who is subscribed is present",
	},
	{
		Name: "leave-forgotten", File: "internal/session/subscribe.go",
		Old: "\t\tb.joined = true\n", New: "",
		Promise: "a leave follows each join",
	},
	{
		Name: "join-forgotten", File: "internal/client/execute.go",
		Old: "\terr := x.node().Engines.Broker.PublishJoin(ctx, e.Channel, e.Info)\n", New: "\terr := ctx.Err()\n",
		Promise: "a join is told",
	},
	// Hub, loops and queues.
	{
		Name: "another-leaves-the-hub", File: "internal/hub/hub.go",
		Old: "\tif hole != end {\n\t\tg.move(end, hole)\n\t}\n", New: "\t_, _ = hole, end\n",
		Promise: "the end of one subscription does not end another",
	},
	{
		Name: "message-kept-and-reused", File: "internal/hub/message.go",
		Old: "{ m.kept.Store(true) }", New: "{}",
		Promise: "memory that is in use is not used again",
	},
	{
		Name: "message-of-all-loops-reused", File: "internal/hub/message.go",
		Old: "\tm.loops = int32(loops)\n", New: "\tm.loops = int32(loops - 1)\n",
		Promise: "memory that is in use is not used again",
	},
	{
		Name: "rest-in-arena", File: "internal/sendqueue/sendqueue.go",
		Old: "\t\trest = append(rest, q.last[n:]...)\n", New: "\t\tif rest = append(rest, q.last[n:]...); q.older == nil {\n\t\t\trest = q.last[n:]\n\t\t}\n",
		Promise: "memory that is in use is not used again",
	},
	{
		Name: "queue-drops-at-bound", File: "internal/session/session.go",
		Old: "\t\ts.Close(protocol.DisconnectSlow)\n", New: "\t\ts.out.Drop(s.env.Pool())\n",
		Promise: "positioned subscriptions never skip silently",
	},
	{
		Name: "slow-client-stays", File: "internal/session/session.go",
		Old: "\tif s.out.Size() > s.cfg.QueueMaxSize {\n", New: "\tif s.out.Size() > s.cfg.QueueMaxSize<<10 {\n",
		Promise: "every queue has a bound",
	},
	{
		Name: "push-overtakes-reply", File: "internal/sendqueue/sendqueue.go",
		Old: "func (q *Queue) Push(p *Pool, frame []byte) int {\n\tq.collect(p)\n", New: "func (q *Queue) Push(p *Pool, frame []byte) int {\n",
		Promise: "no message of a channel comes before the reply",
	},
	{
		Name: "timer-at-wrong-place", File: "internal/loop/wheel.go",
		Old: "\tmoved.Timer().index = tm.index\n", New: "",
		Promise: "a connection lives as long as its client answers",
	},
	{
		Name: "loop-left-out", File: "internal/engines/fanout.go",
		Old: "\t\tif loops.Has(i) {\n", New: "\t\tif loops.Has(i) && (i == 0 || m.Kind == hub.KindCheck) {\n",
		Promise: "a publication reaches all who are subscribed",
	},
	// Routes.
	{
		Name: "route-kept", File: "internal/route/leave.go",
		Old: "\terr := l.table.broker.Unsubscribe(ctx, channels...)\n", New: "\terr := ctx.Err()\n",
		Promise: "a channel without subscribers is left",
	},
	{
		Name: "left-with-subscribers", File: "internal/route/leave.go",
		Old: "\t\tcase !r.loops.empty():\n", New: "\t\tcase !r.loops.empty() && r.departure == staying:\n",
		Promise: "a publication reaches all who are subscribed",
	},
	{
		Name: "failed-subscribe-counts", File: "internal/route/route.go",
		Old: "\t\tif err := t.broker.Subscribe(ctx, ch); err != nil {\n", New: "\t\tr.subscribed = true\n\t\tif err := t.broker.Subscribe(ctx, ch); err != nil {\n",
		Promise: "a publication reaches all who are subscribed",
	},
	{
		Name: "subscribe-not-awaited", File: "internal/route/route.go",
		Old: "\t\tif err := t.broker.Subscribe(ctx, ch); err != nil {\n", New: "\t\tgo func() { _ = t.broker.Subscribe(context.WithoutCancel(ctx), ch) }()\n\t\tif err := ctx.Err(); err != nil {\n",
		Promise: "publications during the subscribe follow the reply",
	},
	// Cluster.
	{
		Name: "command-done-twice", File: "internal/cluster/confirm.go",
		Old: "\tif !before {\n", New: "\tif !before || cmd.ID > 0 {\n",
		Promise: "a node does a command once",
	},
	{
		Name: "command-not-done", File: "internal/cluster/confirm.go",
		Old: "\tif !before {\n", New: "\tif before {\n",
		Promise: "a command that all have confirmed is done",
	},
	{
		Name: "confirmation-forgotten", File: "internal/cluster/confirm.go",
		Old: "\t\tc.confirm[cmd.UID] = append(ids, &control.Confirmed{ID: cmd.ID})\n", New: "\t\tc.confirm[cmd.UID] = ids\n",
		Promise: "a command is confirmed",
	},
	{
		Name: "command-of-own-node-not-done", File: "internal/operations/members.go",
		Old: "\treturn m.Clients.Each(ctx, &t, do)\n}\n\nvar _", New: "\t_ = do\n\treturn m.Clients.Each(ctx, &t, func(*client.Client) {})\n}\n\nvar _",
		Promise: "a command that all have confirmed is done",
	},
	// Clocks and grants.
	{
		Name: "expiry-by-another-clock", File: "internal/session/connect.go",
		Old: "time.Duration(s.env.Wall() - s.env.Now())", New: "time.Duration(s.env.Wall() - s.env.Wall())",
		Promise: "what expires ends by the clock of its node",
	},
	{
		Name: "expiry-jumps", File: "internal/session/timers.go",
		Old: "\t\tif b.overdue(now) {\n", New: "\t\tif b.overdue(s.env.Wall()) {\n",
		Promise: "a jump of a clock does not change how long something lives",
	},
	{
		Name: "subscription-outlives", File: "internal/session/timers.go",
		Old: "\treturn at != 0 && now >", New: "\treturn at < 0 && now >",
		Promise: "what expires ends by the clock of its node",
	},
	{
		Name: "presence-ungranted", File: "internal/session/subscribe.go",
		Old: "= o.Presence, o.PushJoinLeave, o.Source", New: "= o.Presence || o.AllowDelta, o.PushJoinLeave, o.Source",
		Promise: "presence lists the clients to which it was granted",
	},
	{
		Name: "comings-ungranted", File: "internal/session/subscribe.go",
		Old: "= o.Presence, o.PushJoinLeave, o.Source", New: "= o.Presence, o.PushJoinLeave || o.Recoverable, o.Source",
		Promise: "joins and leaves come to the clients to which they were granted",
	},
	// The Go client.
	{
		Name: "client-forgets-position", File: "client/stream.go",
		Old: "\tr := new(protocol.SubscribeRequest)\n\tif s.recoverable {\n", New: "\tr := new(protocol.SubscribeRequest)\n\tif s.recoverable && s.entries != nil {\n",
		Promise: "a client that connects again recovers",
	},
	{
		Name: "client-does-not-subscribe-again", File: "client/link.go",
		Old: "\t\ts.failed = 0\n\t\ts.start()\n", New: "\t\tif s.failed = 0; s.at.Epoch == \"\" {\n\t\t\ts.start()\n\t\t}\n",
		Promise: "a client that connects again subscribes again",
	},
	{
		Name: "client-ignores-silence", File: "client/link.go",
		Old: "\t\tif left > 0 {\n\t\t\tl.listen(left)\n\t\t\treturn\n", New: "\t\tif left > 0 || l.silence > 0 {\n\t\t\tl.listen(l.silence)\n\t\t\treturn\n",
		Promise: "a client whose server is silent connects again",
	},
	{
		Name: "client-sends-no-pong", File: "client/receive.go",
		Old: "\t\tl.out = slices.Insert(l.out, 0, new(protocol.Command))\n", New: "\t\tl.out = slices.Insert(l.out, 0)\n",
		Promise: "a connection lives as long as its client answers",
	},
	{
		Name: "client-tells-no-gap", File: "client/stream.go",
		Old: "\tif r.WasRecovering && !r.Recovered {\n", New: "\tif r.WasRecovering && r.Recovered && before.Epoch == invalid {\n",
		Promise: "a program is told of missing publications",
	},
	// Engines, channels and clients of other kinds.
	{
		Name: "redis-loss-untold", File: "broker/redis/receiver.go",
		Old: "\tr.broker.handler.HandleLoss(r.has)\n}\n\nfunc", New: "}\n\nfunc",
		Promise: "a loss that an engine tells of is found at once", By: "the Redis engine",
	},
	{
		Name: "cache-recovers-old", File: "internal/recovery/recovery.go",
		Old: "\t\tcase pubs[0].Offset != h.Top.Offset:\n", New: "\t\tcase pubs[0].Offset > h.Top.Offset:\n",
		Promise: "a cache gives the newest publication", By: "channels in cache mode",
	},
	{
		Name: "map-recovers-too-many", File: "internal/recovery/recovery.go",
		Old: "\tm.Offset = h.Top.Offset\n", New: "\tm.Offset = h.Top.Offset + 1\n",
		Promise: "a map converges to the engine's state", By: "maps",
	},
	{
		Name: "server-subscription-forgets", File: "internal/session/subscribe.go",
		Old: "\t\treq.Recover, req.Offset, req.Epoch = true, since.Offset, since.Epoch\n", New: "\t\treq.Recover, req.Offset, req.Epoch = false, since.Offset, since.Epoch\n",
		Promise: "a subscription that the server makes anew loses nothing", By: "server-side subscriptions",
	},
}
