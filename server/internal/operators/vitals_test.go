package operators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
)

// fakeCluster is the nodes a, b, …, as a sees them.
type fakeCluster struct {
	size    int
	surveys int
	health  []gyro.Health
	answer  func(uid string, e gyro.SurveyEvent) (gyro.SurveyReply, bool)
	err     error // of Survey
}

func uid(i int) string { return fmt.Sprintf("uid-%d", i) }

func (c *fakeCluster) UID() string           { return uid(0) }
func (c *fakeCluster) Health() []gyro.Health { return c.health }

func (c *fakeCluster) Cluster() gyro.Cluster { return c }

func (c *fakeCluster) Channels(context.Context, string) (map[string]int, error) { return nil, nil }

func (c *fakeCluster) Nodes(context.Context) (infos []gyro.NodeInfo, err error) {
	for i := range c.size {
		infos = append(infos, gyro.NodeInfo{UID: uid(i), Name: fmt.Sprintf("node-%02d", c.size-i)})
	}
	return infos, nil
}

func (c *fakeCluster) Survey(ctx context.Context, op string, data []byte, _ string) (map[string]gyro.SurveyReply, error) {
	c.surveys++
	answers := make(map[string]gyro.SurveyReply)
	missing := false
	for i := range c.size {
		if a, ok := c.answer(uid(i), gyro.SurveyEvent{Op: op, Data: data, Node: uid(0)}); ok {
			answers[uid(i)] = a
		} else {
			missing = true
		}
	}
	if missing && c.err == nil {
		<-ctx.Done()
		return answers, fmt.Errorf("%w of node x: %w", gyro.ErrNoAnswer, ctx.Err())
	}
	return answers, c.err
}

// figures of every node.
func figures() any { return map[string]int{"time": 7} }

// history of every node.
func history() any { return map[string][]int{"times": {7}} }

// TestHistory: the charts of all nodes, of those that have some; one survey serves all who ask within 5 s.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCluster{size: 3}
		c.answer = func(id string, e gyro.SurveyEvent) (gyro.SurveyReply, bool) {
			if id == uid(2) {
				return gyro.SurveyReply{Code: gyro.SurveyUnknownOp}, true
			}
			a, err := NewCluster(&fakeCluster{}, figures, func() any { return nil }).Answer(t.Context(), e)
			if err != nil {
				t.Error(err)
			}
			return a, true
		}
		d := NewCluster(c, figures, history)
		for range 3 {
			r, err := d.History(t.Context())
			if err != nil || len(r.Nodes) != 3 || r.Nodes[0].UID != uid(0) {
				t.Fatalf("%+v, %v", r, err)
			}
			of := make(map[string]string)
			for _, n := range r.Nodes {
				of[n.UID] = string(n.History) + n.Error
				if n.Parts != nil || n.Figures != nil {
					t.Errorf("%+v", n)
				}
			}
			if of[uid(0)] != `{"times":[7]}` || of[uid(1)] != "" || of[uid(2)] != "its version does not tell" {
				t.Error(of)
			}
			time.Sleep(historyAge - time.Second)
		}
		if c.surveys != 2 {
			t.Errorf("%d surveys", c.surveys)
		}
	})
}

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCluster{size: 6, health: []gyro.Health{{Part: "node", Delay: 1500 * time.Microsecond}, {Part: "redis", Err: errors.New(strings.Repeat("é", maxError)), Reconnects: 3}}}
		other := NewCluster(&fakeCluster{health: []gyro.Health{{Part: "node"}}}, figures, history)
		c.answer = func(id string, e gyro.SurveyEvent) (gyro.SurveyReply, bool) {
			switch id {
			case uid(1):
				a, err := other.Answer(t.Context(), e)
				if err != nil {
					t.Error(err)
				}
				return a, true
			case uid(2):
				return gyro.SurveyReply{Code: gyro.SurveyUnknownOp}, true
			case uid(3):
				return gyro.SurveyReply{Data: make([]byte, maxAnswer+1)}, true
			case uid(4):
				return gyro.SurveyReply{Data: []byte(`{"parts":7}`)}, true
			}
			return gyro.SurveyReply{}, false
		}
		d := NewCluster(c, figures, history)
		begin := time.Now()
		r, err := d.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != patience {
			t.Errorf("it took %v", took)
		}
		if r.Time != begin.UnixMilli() || len(r.Nodes) != 6 {
			t.Fatalf("%+v", r)
		}
		own := r.Nodes[0]
		if own.UID != uid(0) || own.Error != "" || len(own.Parts) != 2 || own.Parts[0] != (Part{Part: "node", DelayMS: 1.5}) || string(own.Figures) != `{"time":7}` {
			t.Errorf("%+v", own)
		}
		if p := own.Parts[1]; len(p.Error) > maxError+3 || !strings.HasPrefix(p.Error, "éé") || p.Reconnects != 3 {
			t.Errorf("%+v", p)
		}
		got := make(map[string]Vitals)
		for i, v := range r.Nodes {
			got[v.UID] = v
			if i > 1 && v.Name < r.Nodes[i-1].Name {
				t.Error("they are not in the order of their names")
			}
		}
		if v := got[uid(1)]; v.Error != "" || len(v.Parts) != 1 || string(v.Figures) != `{"time":7}` || v.Name != "node-05" {
			t.Errorf("%+v", v)
		}
		for id, want := range map[string]string{uid(2): "version", uid(3): "bytes", uid(4): "cannot be read", uid(5): "does not answer"} {
			if v := got[id]; !strings.Contains(v.Error, want) || v.Parts != nil || v.Figures != nil {
				t.Errorf("%s: %+v", want, v)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

// TestRate: those who ask share a survey, and the next one is not at once.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCluster{size: 2, answer: func(string, gyro.SurveyEvent) (gyro.SurveyReply, bool) {
			time.Sleep(100 * time.Millisecond)
			return gyro.SurveyReply{Data: []byte("{}")}, true
		}}
		d := NewCluster(c, func() any { return nil }, history)
		ask := func() *Report {
			r, err := d.Report(t.Context())
			if err != nil {
				t.Error(err)
			}
			return r
		}
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() { ask() })
		}
		asking.Wait()
		first := ask()
		if c.surveys != 1 {
			t.Errorf("%d surveys", c.surveys)
		}
		time.Sleep(minAge)
		if ask() == first || c.surveys != 2 {
			t.Errorf("%d surveys", c.surveys)
		}
		if first.Nodes[0].Figures != nil {
			t.Error("figures of a node that measures nothing")
		}
		// A large cluster is asked less often.
		c.size = 5 * nodesPerSecond
		time.Sleep(minAge)
		ask()
		time.Sleep(4 * time.Second)
		if ask(); c.surveys != 3 {
			t.Errorf("%d surveys", c.surveys)
		}
		time.Sleep(time.Second)
		if ask(); c.surveys != 4 {
			t.Errorf("%d surveys", c.surveys)
		}
		// Alone, there is nobody to ask.
		c.size = 1
		time.Sleep(10 * time.Second)
		if r := ask(); c.surveys != 4 || len(r.Nodes) != 1 {
			t.Errorf("%d surveys, %+v", c.surveys, r)
		}
	})
}

// TestWithoutBroker: the node itself is shown although no survey can be made.
func TestWithoutBroker(t *testing.T) {
	c := &fakeCluster{size: 2, err: errors.New("redis: connection refused"), answer: func(string, gyro.SurveyEvent) (gyro.SurveyReply, bool) { return gyro.SurveyReply{}, false }}
	r, err := NewCluster(c, figures, history).Report(t.Context())
	if err != nil || r.Nodes[0].Error != "" || r.Nodes[1].Error != "redis: connection refused" {
		t.Errorf("%+v %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	busy := NewCluster(c, figures, history)
	busy.vitals.turn <- struct{}{}
	if _, err := busy.Report(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if a, err := NewCluster(c, figures, history).Answer(t.Context(), gyro.SurveyEvent{Op: "other"}); err != nil || a.Code != gyro.SurveyUnknownOp {
		t.Errorf("%+v %v", a, err)
	}
}
