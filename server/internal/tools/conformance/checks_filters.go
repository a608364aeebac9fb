package conformance

import (
	"fmt"
	"slices"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

// Publication n has offset n, from 1 on.
var tagged = []map[string]string{
	{"metal": "gold", "price": "4001"}, {"metal": "silver", "price": "80.5"}, {"metal": "gold"}, {}, {"metal": "golden", "price": "-7"}, {"metal": ""},
	{"price": "80.50"},
}

// filtersOf are filters, each with the offsets of the publications that pass it.
var filtersOf = []struct {
	text string
	tf   protocol.FilterNode
	pass []uint64
}{
	{"eq", protocol.FilterNode{Key: "metal", Cmp: "eq", Val: "gold"}, []uint64{1, 3}},
	{"neq", protocol.FilterNode{Key: "metal", Cmp: "neq", Val: "gold"}, []uint64{2, 4, 5, 6, 7}},
	{"in", protocol.FilterNode{Key: "metal", Cmp: "in", Vals: []string{"gold", "silver"}}, []uint64{1, 2, 3}},
	{"in with an empty text, which a missing tag is equal to", protocol.FilterNode{Key: "metal", Cmp: "in", Vals: []string{"", "silver"}}, []uint64{2, 4, 6, 7}},
	{"nin", protocol.FilterNode{Key: "metal", Cmp: "nin", Vals: []string{"gold", "silver"}}, []uint64{4, 5, 6, 7}},
	{"ex", protocol.FilterNode{Key: "metal", Cmp: "ex"}, []uint64{1, 2, 3, 5, 6}},
	{"nex", protocol.FilterNode{Key: "metal", Cmp: "nex"}, []uint64{4, 7}},
	{"sw", protocol.FilterNode{Key: "metal", Cmp: "sw", Val: "gold"}, []uint64{1, 3, 5}},
	{"ew", protocol.FilterNode{Key: "metal", Cmp: "ew", Val: "er"}, []uint64{2}},
	{"ct", protocol.FilterNode{Key: "metal", Cmp: "ct", Val: "l"}, []uint64{1, 2, 3, 5}},
	{"gt", protocol.FilterNode{Key: "price", Cmp: "gt", Val: "80.5"}, []uint64{1}},
	{"gte", protocol.FilterNode{Key: "price", Cmp: "gte", Val: "80.500"}, []uint64{1, 2, 7}},
	{"lt", protocol.FilterNode{Key: "price", Cmp: "lt", Val: "+80.5"}, []uint64{5}},
	{"lte", protocol.FilterNode{Key: "price", Cmp: "lte", Val: "80.5"}, []uint64{2, 5, 7}},
	{"gt with a value that is no number", protocol.FilterNode{Key: "price", Cmp: "gt", Val: "1e1"}, nil},
	{"and", protocol.FilterNode{Op: "and", Nodes: []*protocol.FilterNode{{Key: "metal", Cmp: "eq", Val: "gold"}, {Key: "price", Cmp: "ex"}}}, []uint64{1}},
	{"or", protocol.FilterNode{Op: "or", Nodes: []*protocol.FilterNode{{Key: "metal", Cmp: "eq", Val: "silver"}, {Key: "metal", Cmp: "nex"}}}, []uint64{2, 4, 7}},
	{"not", protocol.FilterNode{Op: "not", Nodes: []*protocol.FilterNode{{Key: "metal", Cmp: "ex"}}}, []uint64{4, 7}},
}

var badFilters = []protocol.FilterNode{
	{}, {Key: "k"}, {Key: "k", Cmp: "like", Val: "v"}, {Cmp: "eq", Val: "v"}, {Key: "k", Cmp: "eq"}, {Key: "k", Cmp: "eq", Val: "v", Vals: []string{"v"}},
	{Key: "k", Cmp: "in"}, {Key: "k", Cmp: "in", Val: "v", Vals: []string{"v"}}, {Key: "k", Cmp: "ex", Val: "v"}, {Op: "and"}, {Op: "or"}, {Op: "xor"}, {Op: "not"},
	{Op: "not", Nodes: []*protocol.FilterNode{{Key: "k", Cmp: "ex"}, {Key: "k", Cmp: "ex"}}},
	{Op: "and", Nodes: []*protocol.FilterNode{{Op: "or", Nodes: []*protocol.FilterNode{{Key: "k", Cmp: "eq"}}}}},
}

func filterChecks() []check {
	const section = "protocol-rules.md#tags-filters"
	return []check{
		{"filters.invalid", section, "a filter that is not valid is error 107, and leaves no subscription", stream | filters, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			for _, f := range badFilters {
				r := c.Call(t.Request(ch, func(r *protocol.SubscribeRequest) { r.Tf = &f }))
				text, _ := f.AppendJSON(nil) // a filter has a form
				t.Want(r.Error != nil && r.Error.Code == 107, "the filter %s is answered by error %s, expected 107", text, probe.Describe(r.Error))
			}
			c.Subscribe(ch)
		}},
		{"filters.live", section, "a filter lets publications through by their tags", stream | filters | api, func(t *trial) {
			ch := t.Channel()
			var clients []*client
			for _, f := range filtersOf {
				c := t.Connect()
				c.SubscribeWith(ch, filteredBy(f.tf))
				clients = append(clients, c)
			}
			t.publishTagged(ch)
			for i, f := range filtersOf {
				var got []uint64
				for {
					p := clients[i].Publication("that ends the check").Pub
					if p.Tags["end"] != "" {
						break
					}
					t.Want(len(p.Tags["n"]) == 1, "a publication has the tags %v", p.Tags)
					got = append(got, uint64(p.Tags["n"][0]-'0'))
				}
				t.Want(slices.Equal(got, f.pass), "%s: the publications %v come, expected %v", f.text, got, f.pass)
			}
		}},
		{"filters.recovery", section, "recovery gives what passes, and recovers although the rest is not sent", stream | filters | recovers | api, func(t *trial) {
			ch := t.Channel()
			epoch := t.Connect().Subscribe(ch).Epoch
			t.publishTagged(ch)
			for _, f := range filtersOf {
				c := t.Connect()
				r := c.SubscribeWith(ch, func(r *protocol.SubscribeRequest) {
					filteredBy(f.tf)(r)
					probe.From(0, epoch)(r)
				})
				t.Want(r.Recovered, "%s: the position is not recovered", f.text)
				got := offsetsOf(r.Publications)
				t.Want(len(got) > 0 && slices.Equal(got[:len(got)-1], f.pass), "%s: the offsets %v come, expected %v and the last", f.text, got, f.pass)
				c.Conn.Close()
			}
		}},
	}
}

// filteredBy also lets the publication through that ends a check.
func filteredBy(f protocol.FilterNode) func(*protocol.SubscribeRequest) {
	return func(r *protocol.SubscribeRequest) {
		r.Tf = &protocol.FilterNode{Op: "or", Nodes: []*protocol.FilterNode{{Key: "end", Cmp: "eq", Val: "yes"}, &f}}
	}
}

func (t *trial) publishTagged(ch string) {
	for n, tags := range append(slices.Clone(tagged), map[string]string{"end": "yes"}) {
		all := map[string]string{"n": fmt.Sprint(n + 1)}
		for k, v := range tags {
			all[k] = v
		}
		t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(n)), "tags": all})
	}
}
