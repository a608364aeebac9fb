package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

// number of a user.
func number(user string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(user, "u"))
	return n
}

// renewal tells who renews the tokens of a user, and the subscriptions of one.
type renewal int

const (
	never    renewal = iota // nothing expires
	byClient                // the client fetches a token
	byServer                // the application is asked
)

func (r *run) renewal(user string) renewal {
	if !r.plan.Expiring || r.modelled(user) {
		return never
	}
	return renewal(number(user) % 3)
}

// expiry is when something that is allowed now expires, by the same clock as now.
func (r *run) expiry(name string, now time.Time) time.Time {
	s := 3 + stream(r.plan.Seed, fmt.Sprint("expiry ", name, r.now())).IntN(5)
	return time.Unix(now.Unix()+int64(s), 0)
}

// token fetches a token from the application's backend. It is the user and the time of its end.
func (u *user) token(ctx context.Context, what string) (string, error) {
	type result struct {
		token string
		err   error
	}
	r, answer := u.r, make(chan result, 1)
	key := "token " + u.name + " " + what
	r.tell(key, func() {
		u.fetches[what]++
		fate := stream(r.plan.Seed, fmt.Sprint(key, " ", u.fetches[what]))
		delay := time.Millisecond + time.Duration(fate.Int64N(int64(100*time.Millisecond)))
		fails := fate.IntN(1000) < r.plan.Network.HandlerFails && !r.healed
		r.after(delay, key, func() {
			if fails {
				r.log.add(u.name, "gets no token for %q", what)
				answer <- result{"", errors.New("the backend fails")}
				return
			}
			answer <- result{fmt.Sprint(u.name, " ", r.expiry(key, time.Now()).Unix()), nil}
		})
	})
	select {
	case a := <-answer:
		return a.token, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// read returns the user of a token and its end, which is zero for a token that does not expire. A node judges it by its
// clock.
func read(token string, c *clock) (user string, end time.Time, err error) {
	user, text, found := strings.Cut(token, " ")
	if !found {
		return user, time.Time{}, nil
	}
	seconds, _ := strconv.ParseInt(text, 10, 64)
	end = time.Unix(seconds, 0)
	if !end.After(c.now()) {
		return user, end, protocol.ErrorTokenExpired
	}
	return user, end, nil
}

// expiring sets the end of a subscription. Some models let theirs end, as long as there are faults.
func (r *run) expiring(m *machine, user, ch, token string, reply *gyro.SubscribeReply) error {
	switch r.renewal(user) {
	case byServer:
		reply.Options.ExpireAt = r.expiry("subscription "+user+ch, m.clock.now())
	case byClient:
		_, end, err := read(token, m.clock)
		if err != nil {
			return err
		}
		reply.Options.ExpireAt, reply.ClientSideRefresh = end, true
	case never:
		if r.plan.Expiring && r.modelled(user) && !r.rude(user) && !r.healed && hash("ends "+user+ch)%3 == 0 {
			reply.Options.ExpireAt, reply.ClientSideRefresh = r.expiry("subscription "+user+ch, m.clock.now()), true
		}
	}
	return nil
}

// refresh renews a connection.
func (r *run) refresh(m *machine, user string, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
	if !e.ClientSide {
		return gyro.RefreshReply{ExpireAt: r.expiry("refresh "+user, m.clock.now())}, nil
	}
	_, end, err := read(e.Token, m.clock)
	if r.modelled(user) {
		end = r.expiry("refresh "+user, m.clock.now())
	}
	return gyro.RefreshReply{ExpireAt: end}, err
}

// subRefresh renews a subscription.
func (r *run) subRefresh(m *machine, user string, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
	if !e.ClientSide {
		return gyro.SubRefreshReply{ExpireAt: r.expiry("refresh "+user+e.Channel, m.clock.now())}, nil
	}
	_, end, err := read(e.Token, m.clock)
	return gyro.SubRefreshReply{ExpireAt: end}, err
}

// modelled tells that the client of a user is a model of an SDK.
func (r *run) modelled(user string) bool {
	return stream(r.plan.Seed, "client "+user).IntN(1000) < r.plan.Rude+r.plan.Models
}

// lend notes until when a connection may go on, or a subscription, by the clock of its node: for how long, that is. A
// jump of the clock does not change it later.
func (r *run) lend(m *machine, c *gyro.Client, ch string, begins bool, end time.Time) {
	r.lendTo(m, c.Transport().RemoteAddr, c.ID(), ch, begins, end)
}

// lease is until when something may go on, since the begin of the run, and what it was at first.
type lease struct{ until, first time.Duration }

func (r *run) lendTo(m *machine, conn, id, ch string, begins bool, end time.Time) {
	left := end.Sub(m.clock.now())
	r.tell(fmt.Sprint("lease ", conn, " ", ch), func() {
		key := [2]string{conn, ch}
		if end.IsZero() {
			delete(r.leases, key)
			return
		}
		until := r.now() + left
		l := r.leases[key]
		if l.until = until; begins {
			l.first = until
		}
		r.leases[key] = l
		grace := 2 * time.Second // Config.ExpiredCloseDelay and ExpiredSubCloseDelay
		if ch != "" {
			grace += 3*time.Second + soon // the node looks each PresenceUpdateInterval, and calls Unsubscribed
		}
		r.after(max(left+grace+tolerance, 0), fmt.Sprint("lease ", conn, " ", ch), func() {
			if r.leases[key].until == until && r.goesOn(conn, id, ch) {
				r.fail("%s: %q goes on, but it had to end %v ago", conn, ch, r.now()-until)
			}
		})
	})
}

// tolerance of expirations: they are in whole seconds, and timers are exact to 50 ms.
const tolerance = time.Second

// goesOn tells whether a connection whose client renews its tokens itself, or a subscription of it, still exists at the
// node. The node asks the application about others, which may take as long as the commands before.
func (r *run) goesOn(conn, id, ch string) bool {
	a := r.application
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.clients[id]
	if s == nil || !s.connected || s.disconnected || r.renewal(s.user) == byServer {
		return false
	}
	for c := range r.net.live {
		if c.name == conn && ch == "" {
			c.mu.Lock()
			defer c.mu.Unlock()
			return !c.closed
		}
	}
	return ch != "" && r.began[id][ch] > s.ended[ch]
}

// lapsed is the end of a connection, or of a subscription, with a code. If the code says that it has expired, its time
// must be over. A client may have asked for more time behind the end of its subscription.
func (r *run) lapsed(conn, user, ch string, code uint32) {
	if code != protocol.DisconnectExpired.Code && code != protocol.UnsubscribeExpired.Code {
		return
	}
	r.tell(fmt.Sprint("lapsed ", conn, " ", ch), func() {
		l, lent := r.leases[[2]string{conn, ch}]
		until := l.until
		if ch != "" {
			until = l.first
		}
		if early := until - r.now(); !r.expelled[user] && (!lent || early > tolerance) {
			r.fail("%s: %q ends with %d, %v early", conn, ch, code, early)
		}
	})
}

// rude tells that the client of a user is a model of an SDK that breaks its rules.
func (r *run) rude(user string) bool {
	return stream(r.plan.Seed, "client "+user).IntN(1000) < r.plan.Rude
}
