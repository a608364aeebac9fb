package client

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
)

func seconds(ttl uint32) time.Duration { return time.Duration(max(ttl, 1)) * time.Second }

func (c *Client) refreshPause() time.Duration {
	return 5*time.Second + time.Duration(c.random()*float64(5*time.Second))
}

func (l *link) refreshAfter(d time.Duration) {
	if l.options.GetToken == nil {
		return // the server tells when it is over
	}
	l.after(d, func() { go l.refresh() })
}

func (l *link) refresh() {
	token, err := l.options.GetToken(l.life())
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dropped:
	case denied(token, err):
		l.gone(unauthorized)
	case err != nil:
		l.retryRefresh(errRefresh.of(err))
	default:
		l.token = token
		l.ask(&protocol.Command{Refresh: &protocol.RefreshRequest{Token: token}}, func() { l.retryRefresh(ErrTimeout) }, l.refreshed)
		l.flush()
	}
}

func (l *link) retryRefresh(e *protocol.Error) {
	l.queues.Push(errorEvent("", e))
	l.refreshAfter(l.refreshPause())
}

func (l *link) refreshed(r *protocol.Reply) {
	switch {
	case r.Error != nil && temporary(r.Error):
		l.retryRefresh(r.Error)
	case r.Error != nil:
		l.gone(ending{reason: Reason{r.Error.Code, r.Error.Message}, last: true, politely: true})
	case r.Refresh != nil && r.Refresh.Expires:
		l.refreshAfter(seconds(r.Refresh.TTL))
	}
}
