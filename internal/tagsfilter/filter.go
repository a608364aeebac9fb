// Package tagsfilter decides by a publication's tags whether a subscriber gets it.
package tagsfilter

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/gyrohq/gyro/protocol"
)

// Levels of nodes, nodes, and values of all comparisons together, which keep the work per publication small. The bounds
// for decoding a filter, in client.proto, are not less.
const (
	MaxDepth = 32
	MaxNodes = 256
	MaxVals  = 1024
)

// Filter is a compiled filter. It is immutable, and any goroutine may use it. All publications pass nil.
type Filter struct {
	root node
	id   [sha256.Size]byte
}

type node struct {
	match    func(n *node, tags map[string]string) bool
	key, val string
	number   decimal // val as a number, if the comparison is one
	vals     map[string]struct{}
	children []node
}

// Compile checks and compiles n, which is not kept. The error names the node and its mistake.
func Compile(n *protocol.FilterNode) (*Filter, error) {
	root, err := new(compiler).node(n, 1)
	if err != nil {
		return nil, fmt.Errorf("tags filter: %w", err)
	}
	return &Filter{root: root, id: sha256.Sum256(n.AppendProto(nil))}, nil
}

// ID is the SHA-256 of the filter's Protobuf encoding, or zero for nil. Filters with the same ID pass the same
// publications.
func (f *Filter) ID() [sha256.Size]byte {
	if f == nil {
		return [sha256.Size]byte{}
	}
	return f.id
}

// Match reports whether a publication with these tags, or nil, passes. It does not allocate.
func (f *Filter) Match(tags map[string]string) bool {
	return f == nil || f.root.match(&f.root, tags)
}

type compiler struct{ nodes, vals int }

func (c *compiler) node(n *protocol.FilterNode, depth int) (node, error) {
	if n == nil {
		return node{}, errors.New("the node is null")
	}
	c.nodes++
	c.vals += len(n.Vals)
	switch {
	case n.Excess:
		return node{}, fmt.Errorf("more than %d nodes or %d values", MaxNodes, MaxVals)
	case depth > MaxDepth:
		return node{}, fmt.Errorf("nested more than %d levels deep", MaxDepth)
	case c.nodes > MaxNodes:
		return node{}, fmt.Errorf("more than %d nodes", MaxNodes)
	case c.vals > MaxVals:
		return node{}, fmt.Errorf("more than %d values", MaxVals)
	case n.Op == "":
		return leaf(n)
	}
	match, ok := operators[n.Op]
	switch {
	case !ok:
		return node{}, fmt.Errorf("unknown op %s", quote(n.Op))
	case len(n.Nodes) == 0:
		return node{}, fmt.Errorf("op %s needs nodes", quote(n.Op))
	case n.Op == "not" && len(n.Nodes) > 1:
		return node{}, fmt.Errorf("op %s takes one node, not %d", quote(n.Op), len(n.Nodes))
	}
	out := node{match: match}
	for i, child := range n.Nodes {
		compiled, err := c.node(child, depth+1)
		if err != nil {
			return node{}, fmt.Errorf("nodes[%d]: %w", i, err)
		}
		out.children = append(out.children, compiled)
	}
	return out, nil
}

func quote(s string) string { return fmt.Sprintf("%.40q", s) }

var operators = map[string]func(*node, map[string]string) bool{"and": and, "or": or, "not": not}

type operands uint8

const (
	oneValue operands = iota
	manyValues
	noValue
)

var comparisons = map[string]struct {
	takes operands
	match func(*node, map[string]string) bool
}{
	"eq":  {oneValue, func(n *node, t map[string]string) bool { v, has := t[n.key]; return has && v == n.val }},
	"neq": {oneValue, func(n *node, t map[string]string) bool { v, has := t[n.key]; return !has || v != n.val }},
	"sw":  {oneValue, func(n *node, t map[string]string) bool { v, has := t[n.key]; return has && strings.HasPrefix(v, n.val) }},
	"ew":  {oneValue, func(n *node, t map[string]string) bool { v, has := t[n.key]; return has && strings.HasSuffix(v, n.val) }},
	"ct":  {oneValue, func(n *node, t map[string]string) bool { v, has := t[n.key]; return has && strings.Contains(v, n.val) }},
	"gt":  {oneValue, numeric(func(c int) bool { return c > 0 })},
	"gte": {oneValue, numeric(func(c int) bool { return c >= 0 })},
	"lt":  {oneValue, numeric(func(c int) bool { return c < 0 })},
	"lte": {oneValue, numeric(func(c int) bool { return c <= 0 })},
	"in":  {manyValues, func(n *node, t map[string]string) bool { _, ok := n.vals[t[n.key]]; return ok }},
	"nin": {manyValues, func(n *node, t map[string]string) bool { _, ok := n.vals[t[n.key]]; return !ok }},
	"ex":  {noValue, func(n *node, t map[string]string) bool { _, has := t[n.key]; return has }},
	"nex": {noValue, func(n *node, t map[string]string) bool { _, has := t[n.key]; return !has }},
}

func leaf(n *protocol.FilterNode) (node, error) {
	cmp, ok := comparisons[n.Cmp]
	if !ok {
		return node{}, fmt.Errorf("unknown cmp %s", quote(n.Cmp))
	}
	bad := func(what string) (node, error) { return node{}, fmt.Errorf("cmp %s %s", quote(n.Cmp), what) }
	switch {
	case cmp.takes != noValue && n.Key == "":
		return bad("needs a key")
	case cmp.takes == oneValue && n.Val == "":
		return bad("needs val")
	case cmp.takes != oneValue && n.Val != "":
		return bad("takes no val")
	case cmp.takes == manyValues && len(n.Vals) == 0:
		return bad("needs vals")
	case cmp.takes != manyValues && len(n.Vals) > 0:
		return bad("takes no vals")
	}
	out := node{match: cmp.match, key: n.Key, val: n.Val}
	out.number, _ = parseDecimal(n.Val)
	if cmp.takes == manyValues {
		out.vals = make(map[string]struct{}, len(n.Vals))
		for _, v := range n.Vals {
			out.vals[v] = struct{}{}
		}
	}
	return out, nil
}

func and(n *node, tags map[string]string) bool { return !n.anyIs(false, tags) }
func or(n *node, tags map[string]string) bool  { return n.anyIs(true, tags) }
func not(n *node, tags map[string]string) bool { return n.anyIs(false, tags) } // of one child

func (n *node) anyIs(want bool, tags map[string]string) bool {
	for i := range n.children {
		if k := &n.children[i]; k.match(k, tags) == want {
			return true
		}
	}
	return false
}

// numeric compares exact decimals. It is false if the tag or the value is none.
func numeric(holds func(int) bool) func(*node, map[string]string) bool {
	return func(n *node, tags map[string]string) bool {
		v, has := tags[n.key]
		if !has || !n.number.valid {
			return false
		}
		d, ok := parseDecimal(v)
		return ok && holds(d.compare(n.number))
	}
}
