package operators

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
)

// many is a cluster in which each node has so many clients.
type many struct {
	gyro.Inspector
	nodes, each int
	limits      []int
	err         error
}

func (m *many) Cluster() gyro.Cluster { return m }

func (m *many) Inspect() gyro.Inspector { return m }

func (m *many) Survey(context.Context, string, []byte, string) (map[string]gyro.SurveyReply, error) {
	return nil, nil
}

func (m *many) Channels(context.Context, string) (map[string]int, error) { return nil, nil }

func (m *many) Nodes(context.Context) (infos []gyro.NodeInfo, err error) {
	for i := range m.nodes {
		infos = append(infos, gyro.NodeInfo{UID: fmt.Sprint(i), NumClients: m.each})
	}
	return infos, nil
}

func (m *many) Connections(_ context.Context, f inspect.Filter) (found inspect.Connections, err error) {
	m.limits = append(m.limits, f.Limit)
	if f.User != "" || f.Expression != "" {
		return found, errors.New("the list selects nothing")
	}
	for i := range min(f.Limit, m.nodes*m.each) {
		user := "ann"
		if i == 0 {
			user = tailUser
		}
		found.List = append(found.List, inspect.Connection{
			Client: fmt.Sprint(i), User: user, ConnectedAt: time.UnixMilli(int64(i)), Channels: map[string]inspect.Subscription{"a": {}, "b": {}},
		})
	}
	found.More = m.nodes*m.each > f.Limit
	return found, m.err
}

// TestListing: what is listed is bounded, whatever there is, and says how much that is; who ask at the same time cost one survey.
func TestListing(t *testing.T) {
	for _, tt := range []struct{ nodes, each, listed int }{{1, 3, 3}, {1, 100_000, 200}, {10, 1000, 200}, {52, 20_000, 48}, {500, 2000, 10}} {
		synctest.Test(t, func(t *testing.T) {
			m := &many{nodes: tt.nodes, each: tt.each}
			l := newLister(m)
			for range 5 {
				got, err := l.list(t.Context())
				if err != nil || got.Clients != tt.nodes*tt.each || len(got.Connections) != tt.listed || got.More != (tt.nodes*tt.each > tt.listed) {
					t.Fatalf("%d nodes: %+v, %v", tt.nodes, got, err)
				}
				first, last := got.Connections[0], got.Connections[tt.listed-1]
				if first.ConnectedAt < last.ConnectedAt || first.Operator || !last.Operator || first.Subscriptions != 2 {
					t.Errorf("%+v, %+v", first, last)
				}
				time.Sleep(listAge/2 + time.Millisecond)
			}
			if len(m.limits) != 3 {
				t.Errorf("%d surveys", len(m.limits))
			}
		})
	}
}

// TestListingOfPart: nodes that do not answer are named; another failure is a failure.
func TestListingOfPart(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		text   string
	}{
		{fmt.Errorf("%w of node x", gyro.ErrNoAnswer), http.StatusOK, `"incomplete":"`},
		{errors.New("gyro: the node is shut down"), http.StatusServiceUnavailable, "Service Unavailable: the node is shut down"},
	} {
		w := httptest.NewRecorder()
		newLister(&many{nodes: 2, each: 1, err: tt.err}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) || strings.Contains(w.Body.String(), "gyro:  ") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
