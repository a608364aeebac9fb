package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
)

const (
	opVitals, opHistory = "server_vitals", "server_history"
	patience            = time.Second
	// minAge is how long a report is given out before the next survey. Beyond nodesPerSecond nodes it is longer, which
	// bounds the cost of operators in a cluster of any size.
	minAge         = time.Second
	nodesPerSecond = 100
	// A node has a new point of history each 15 s.
	historyAge = 5 * time.Second
	maxAnswer  = 64 << 10
	maxError   = 512
	maxParts   = 64
)

// ClusterNode is the node of a Cluster.
type ClusterNode interface {
	UID() string
	Health() []gyro.Health
	Cluster() gyro.Cluster
}

// Part of a node.
type Part struct {
	Part       string  `json:"part"`
	DelayMS    float64 `json:"delay_ms"`
	Error      string  `json:"error,omitempty"`
	Reconnects uint64  `json:"reconnects"`
}

// Vitals of a node.
type Vitals struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
	// Error says why the rest is missing.
	Error   string          `json:"error,omitempty"`
	Parts   []Part          `json:"parts,omitempty"`
	Figures json.RawMessage `json:"figures,omitempty"`
	// History are the charts of the last hour (metrics.History), in reports of History.
	History json.RawMessage `json:"history,omitempty"`
}

// Report has the vitals of all nodes, the asked one first and the others by their names.
type Report struct {
	Time  int64    `json:"time"`
	Nodes []Vitals `json:"nodes"`
}

// Cluster answers for its node, and asks the others. Any goroutine may use it.
type Cluster struct {
	node            ClusterNode
	figures         func() any
	vitals, history survey
}

type survey struct {
	op  string
	own func() Vitals // of this node
	age time.Duration // a report is given out for at least so long

	turn   chan struct{} // is full during a survey, so that all callers share it; guards the fields below
	latest *Report
	until  time.Time // when latest is too old
}

// NewCluster returns a Cluster. figures and history return values for JSON of a bounded size, or nil.
func NewCluster(n ClusterNode, figures, history func() any) *Cluster {
	c := &Cluster{node: n, figures: figures}
	c.vitals = survey{op: opVitals, own: c.own, age: minAge, turn: make(chan struct{}, 1)}
	c.history = survey{op: opHistory, own: func() Vitals { return Vitals{UID: n.UID(), History: encode(history())} }, age: historyAge, turn: make(chan struct{}, 1)}
	return c
}

// Answer is the node's Survey handler.
func (c *Cluster) Answer(_ context.Context, e gyro.SurveyEvent) (gyro.SurveyReply, error) {
	for _, r := range []*survey{&c.vitals, &c.history} {
		if r.op == e.Op {
			text, err := json.Marshal(r.own())
			return gyro.SurveyReply{Data: text}, err
		}
	}
	return gyro.SurveyReply{Code: gyro.SurveyUnknownOp}, nil
}

func (c *Cluster) own() Vitals {
	return Vitals{UID: c.node.UID(), Parts: c.Parts(), Figures: encode(c.figures())}
}

// encode returns nil for nil, and for a value that JSON cannot encode.
func encode(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return text
}

// Parts returns the parts of this node.
func (c *Cluster) Parts() []Part {
	var parts []Part
	for _, h := range c.node.Health() {
		if len(parts) == maxParts {
			break
		}
		p := Part{Part: h.Part, DelayMS: float64(h.Delay) / float64(time.Millisecond), Reconnects: h.Reconnects}
		if h.Err != nil {
			p.Error = short(h.Err.Error())
		}
		parts = append(parts, p)
	}
	return parts
}

// Report asks all nodes for their vitals, unless it did so a moment ago.
func (c *Cluster) Report(ctx context.Context) (*Report, error) { return c.vitals.report(ctx, c.node) }

// History asks all nodes for their charts, unless it did so a moment ago.
func (c *Cluster) History(ctx context.Context) (*Report, error) { return c.history.report(ctx, c.node) }

func (o *survey) report(ctx context.Context, node ClusterNode) (*Report, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	if o.latest != nil && now.Before(o.until) {
		return o.latest, nil
	}
	infos, err := node.Cluster().Nodes(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Time: now.UnixMilli(), Nodes: make([]Vitals, 0, len(infos))}
	// A caller that goes away does not end the survey for the other callers.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	answers, err := o.ask(ctx, node, infos)
	for _, n := range infos {
		v := Vitals{UID: n.UID}
		if n.UID == node.UID() {
			v = o.own()
		} else if a, ok := answers[n.UID]; ok {
			v = readVitals(n.UID, a)
		} else {
			v.Error = silence(err)
		}
		v.Name = n.Name
		r.Nodes = append(r.Nodes, v)
	}
	if len(r.Nodes) > 1 {
		slices.SortFunc(r.Nodes[1:], func(a, b Vitals) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
		})
	}
	o.latest, o.until = r, time.Now().Add(max(o.age, time.Duration(len(infos))*time.Second/nodesPerSecond))
	return r, nil
}

func (o *survey) ask(ctx context.Context, node ClusterNode, infos []gyro.NodeInfo) (map[string]gyro.SurveyReply, error) {
	if len(infos) < 2 {
		return nil, nil
	}
	return node.Cluster().Survey(ctx, o.op, nil, "")
}

func silence(err error) string {
	if err == nil || errors.Is(err, gyro.ErrNoAnswer) {
		return "it does not answer"
	}
	return short(err.Error())
}

func readVitals(uid string, a gyro.SurveyReply) Vitals {
	v := Vitals{UID: uid}
	switch {
	case a.Code == gyro.SurveyUnknownOp:
		v.Error = "its version does not tell"
	case a.Code != gyro.SurveyOK:
		v.Error = short(fmt.Sprintf("it answers with code %d: %s", a.Code, a.Data))
	case len(a.Data) > maxAnswer:
		v.Error = fmt.Sprintf("its answer has %d bytes, which is more than %d", len(a.Data), maxAnswer)
	default:
		if err := json.Unmarshal(a.Data, &v); err != nil {
			return Vitals{UID: uid, Error: short("its answer cannot be read: " + err.Error())}
		}
		v.UID, v.Parts = uid, v.Parts[:min(len(v.Parts), maxParts)]
	}
	return v
}

func short(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + "…"
}
