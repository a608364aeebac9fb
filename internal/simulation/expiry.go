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

// expiry is when something that is allowed now expires.
func (r *run) expiry(name string) time.Time {
	s := 3 + stream(r.plan.Seed, fmt.Sprint("expiry ", name, r.now())).IntN(5)
	return time.Unix(time.Now().Unix()+int64(s), 0)
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
			answer <- result{fmt.Sprint(u.name, " ", r.expiry(key).Unix()), nil}
		})
	})
	select {
	case a := <-answer:
		return a.token, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// read returns the user of a token and its end, which is zero for a token that does not expire.
func read(token string) (user string, end time.Time, err error) {
	user, text, found := strings.Cut(token, " ")
	if !found {
		return user, time.Time{}, nil
	}
	seconds, _ := strconv.ParseInt(text, 10, 64)
	end = time.Unix(seconds, 0)
	if !end.After(time.Now()) {
		return user, end, protocol.ErrorTokenExpired
	}
	return user, end, nil
}

// expiring sets the end of a subscription.
func (r *run) expiring(user, ch, token string, reply *gyro.SubscribeReply) error {
	switch r.renewal(user) {
	case byServer:
		reply.Options.ExpireAt = r.expiry("subscription " + user + ch)
	case byClient:
		_, end, err := read(token)
		if err != nil {
			return err
		}
		reply.Options.ExpireAt, reply.ClientSideRefresh = end, true
	}
	return nil
}

// refresh renews a connection.
func (r *run) refresh(user string, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
	if !e.ClientSide {
		return gyro.RefreshReply{ExpireAt: r.expiry("refresh " + user)}, nil
	}
	_, end, err := read(e.Token)
	if r.modelled(user) {
		end = r.expiry("refresh " + user)
	}
	return gyro.RefreshReply{ExpireAt: end}, err
}

// subRefresh renews a subscription.
func (r *run) subRefresh(user string, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
	if !e.ClientSide {
		return gyro.SubRefreshReply{ExpireAt: r.expiry("refresh " + user + e.Channel)}, nil
	}
	_, end, err := read(e.Token)
	return gyro.SubRefreshReply{ExpireAt: end}, err
}

// modelled tells that the client of a user is a model of an SDK.
func (r *run) modelled(user string) bool {
	return stream(r.plan.Seed, "client "+user).IntN(1000) < r.plan.Rude+r.plan.Models
}
