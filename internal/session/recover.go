package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/protocol"
)

// recoverWithin makes the result of a subscribe, in of, from the part of the stream that was read. It sets the position
// to the top that was read: buffered publications after it follow the reply, so nothing is merged. It subtracts the size
// of the publications from budget, in bytes. The error is the answer in place of the result.
func (b *Subscription) recoverWithin(it *effect.AttachItem, budget *int, of *subscribeResult) (r *protocol.SubscribeResult, err error) {
	defer func() { b.s.env.Explain(commandRefused, b.channel, err) }()
	setup, r := b.setup, &of.Result
	b.result(r, it)
	asked := setup.subscribing.Request.Recover
	r.WasRecovering = asked
	var missed []*channel.Publication
	if b.at.Positioned {
		b.at.Offset, b.at.Epoch = it.Top.Offset, it.Top.Epoch
		if recovery.For(setup.opts).Gapless() && !recovery.Follows(it.Top, setup.buffer.Positions) {
			// A publication was lost while the client subscribed.
			return nil, protocol.DisconnectInsufficientState
		}
		r.Epoch, r.Offset = it.Top.Epoch, it.Top.Offset
	}
	if recovery.Recovers(setup.opts, asked) {
		q := b.recoveryRequest(setup.subscribing.Request)
		m, ok, err := recovery.Resume(recovery.For(setup.opts), q, it.History, budget)
		if ok || asked || setup.catchup != nil { // a first subscriber to an empty cache has lost nothing
			b.s.env.Counts().Recovered(b.channel, ok, len(m.Publications))
			b.s.env.Note(inspect.Recovery(ok), b.channel, 0, len(m.Publications), b.s.cfg.Epochs.Recovered(b.channel, q.Since, it.Top))
		}
		if err != nil {
			return nil, err
		}
		r.Recovered, r.WasRecovering, r.Offset, missed = ok, ok || asked, m.Offset, m.Publications
	}
	if len(missed) == 0 && setup.catchup == nil {
		// Publications of the application need not be of the stream, so they are no base.
		missed = setup.opts.Publications
	} else if len(missed) > 0 {
		b.at.Received(missed[len(missed)-1].Offset)
	}
	r.Publications = of.Missed.Make(missed, b.at.Form, b.s.via.Framer.Encoding())
	b.s.leftOut(b.channel, of.Missed.LeftOut)
	if setup.catchup != nil {
		err = b.completeCatchUp(of)
	}
	return r, err
}

// recoverAlone is recoverWithin for a reply with one subscription.
func (b *Subscription) recoverAlone(it *effect.AttachItem, of *subscribeResult) (*protocol.SubscribeResult, error) {
	budget := recovery.Budget(b.s.cfg.QueueMaxSize, 1)
	return b.recoverWithin(it, &budget, of)
}

// escapes reports whether the client gets payloads in strings of JSON, which make them up to twice as long.
func (b *Subscription) escapes() bool {
	return b.at.Form&hub.Escaped != 0 && b.s.via.Framer.Encoding() == protocol.JSON
}

func (b *Subscription) recoveryRequest(req *protocol.SubscribeRequest) recovery.Request {
	r := recovery.Request{
		Since: channel.StreamPosition{Offset: req.Offset, Epoch: req.Epoch},
		Limit: recovery.AtMost(b.s.cfg.RecoveryLimit), Reject: req.Flag&flagReject != 0, Escaped: b.escapes(),
	}
	if c := b.setup.catchup; c != nil {
		r.Since, r.Limit = c.Since(), c.LiveLimit()
	}
	if b.terms.Filtered() {
		r.Filter = b.terms.Passes
	}
	return r
}
