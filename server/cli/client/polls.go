package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// trackKeys is the type of the command that tracks keys.
const trackKeys = 1

// pollState is where the subscription to a shared poll channel stands.
type pollState struct {
	epoch    string
	versions map[string]uint64 // that the client has of keys
	// renew is when the signature is to be replaced by a new one; zero: never. It is looked at with each ping of the server.
	renew time.Time
}

// polls handles the reply to a subscribe command, and tracks the keys.
func (s *session) polls(sub *subscription, res *protocol.SubscribeResult) error {
	p := &sub.poll
	if p.versions == nil || p.epoch != res.Epoch {
		p.versions = make(map[string]uint64)
		sub.whole.forget()
	}
	p.epoch = res.Epoch
	sub.whole.negotiated(res.Delta)
	if err := s.handle(Event{Kind: Subscribed, Channel: sub.Name, Result: res}); err != nil {
		return err
	}
	return s.track(sub)
}

// track sends the command that tracks all keys, with the versions that the client has.
func (s *session) track(sub *subscription) error {
	if s.cfg.SignKeys == nil {
		return fatal{fmt.Errorf("%s: there is no signature of its keys", sub.Name)}
	}
	signature, err := s.cfg.SignKeys(sub.Name, sub.Keys)
	if err != nil {
		return fatal{err}
	}
	batch := &protocol.TrackBatch{Signature: signature}
	for _, key := range sub.Keys {
		batch.Items = append(batch.Items, &protocol.KeyedItem{Key: key, Version: sub.poll.versions[key]})
	}
	sub.poll.renew = time.Time{}
	cmd := &protocol.Command{ID: s.nextID(), SubRefresh: &protocol.SubRefreshRequest{Channel: sub.Name, Type: trackKeys, Track: []*protocol.TrackBatch{batch}}}
	s.tracking[cmd.ID] = sub.Name
	return s.conn.Send(cmd)
}

// tracked handles the reply to it.
func (s *session) tracked(name string, r *protocol.Reply) error {
	sub := s.subs[name]
	switch {
	case sub == nil:
		return nil
	case r.Error != nil:
		return refused(fmt.Sprintf("track keys of %q", name), r.Error)
	case r.SubRefresh == nil:
		return fatal{errors.New("track: the reply has no result")}
	}
	if r.SubRefresh.Expires {
		sub.poll.renew = time.Now().Add(time.Duration(r.SubRefresh.TTL) * time.Second / 2)
	}
	for _, pub := range r.SubRefresh.Items {
		if err := s.polled(sub, pub); err != nil {
			return err
		}
	}
	return nil
}

// polled handles a value of a key.
func (s *session) polled(sub *subscription, pub *protocol.Publication) error {
	if err := sub.whole.restore(pub); err != nil {
		return fmt.Errorf("%s: %w", sub.Name, err)
	}
	if pub.Removed {
		delete(sub.poll.versions, pub.Key)
	} else {
		sub.poll.versions[pub.Key] = pub.Version
	}
	return s.handle(Event{Kind: Published, Channel: sub.Name, Publication: pub})
}

// renew replaces signatures whose time is half over.
func (s *session) renew() error {
	for _, sub := range s.subs {
		if at := sub.poll.renew; !at.IsZero() && !time.Now().Before(at) {
			if err := s.track(sub); err != nil {
				return err
			}
		}
	}
	return nil
}
