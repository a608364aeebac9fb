package tap_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/tap"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// client is one of a user.
type client string

func (c client) ID() string                   { return "id" }
func (c client) User() string                 { return string(c) }
func (c client) Agent() (observe.Agent, bool) { return 0, true }

func rpc(data string) *protocol.Command {
	return &protocol.Command{ID: 1, RPC: &protocol.RPCRequest{Method: "m", Data: []byte(data)}}
}

// TestExpiry: a tap that nobody fetches ends by itself, and fetching it keeps it.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := tap.New("n")
		of := observe.Tap{Kind: observe.TapUser, Entity: "u"}
		for range 5 {
			if _, _, err := table.Fetch("id", of); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
			synctest.Wait()
			if !table.Watching() {
				t.Fatal("the tap has ended although it is fetched")
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if table.Watching() {
			t.Error("the tap has not ended")
		}
	})
}

// TestBounds: a tap that is not fetched keeps so many events, so many bytes and no long messages, and tells how many
// are missing. What is fetched at once is bounded, too.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a tap that is not fetched for 10 s ends
		table := tap.New("n")
		of := observe.Tap{Kind: observe.TapUser, Entity: "u"}
		fetch := func() (n int, dropped uint64) {
			for {
				events, lost, err := table.Fetch("id", of)
				if err != nil {
					t.Fatal(err)
				}
				n, dropped = n+len(events), dropped+lost
				size := 0
				for _, e := range events {
					size += len(e.Message) + len(e.Protobuf)
				}
				if size > 512<<10+32<<10 {
					t.Errorf("%d bytes at once", size)
				}
				if len(events) == 0 {
					return n, dropped
				}
			}
		}
		fetch()
		for range 5000 {
			table.Received(client("u"), client("u"), rpc(`1`))
		}
		if n, dropped := fetch(); n != 4096 || dropped != 904 {
			t.Errorf("%d events, %d dropped", n, dropped)
		}
		long := `"` + strings.Repeat("x", 30<<10) + `"`
		for range 300 {
			table.Received(client("u"), client("u"), rpc(long))
		}
		if n, dropped := fetch(); n+int(dropped) != 300 || n > 140 || n < 130 {
			t.Errorf("%d events, %d dropped", n, dropped)
		}
		table.Received(client("u"), client("u"), rpc(`"`+long+long+`"`))
		table.Received(client("u"), client("u"), rpc(`no JSON`))
		events, _, _ := table.Fetch("id", of)
		if len(events) != 2 || events[0].Message != nil || events[0].Protobuf != nil || events[0].Size < 60<<10 || len(events[1].Protobuf) == 0 {
			t.Errorf("%+v", events)
		}
		table.Close()
		if table.Watching() {
			t.Error("there is a tap after Close")
		}
	})
}

// TestSecrets: nobody sees tokens, sessions, signatures and the values of headers.
func TestSecrets(t *testing.T) {
	table := tap.New("n")
	defer table.Close()
	of := observe.Tap{Kind: observe.TapUser, Entity: "u"}
	_, _, _ = table.Fetch("id", of)
	sub := &protocol.SubscribeRequest{Channel: "ch", Token: "S3CRET"}
	for _, cmd := range []*protocol.Command{
		{ID: 1, Connect: &protocol.ConnectRequest{Token: "S3CRET", Headers: map[string]string{"Authorization": "S3CRET"}, Subs: map[string]*protocol.SubscribeRequest{"ch": sub}}},
		{ID: 2, Subscribe: sub},
		{ID: 3, Refresh: &protocol.RefreshRequest{Token: "S3CRET"}},
		{ID: 4, SubRefresh: &protocol.SubRefreshRequest{Channel: "ch", Token: "S3CRET", Track: []*protocol.TrackBatch{{Signature: "S3CRET"}}}},
	} {
		table.Received(client("u"), client("u"), cmd)
	}
	table.Sent(client("u"), client("u"), &protocol.Reply{ID: 1, Connect: &protocol.ConnectResult{Client: "c", Session: "S3CRET"}})
	events, _, _ := table.Fetch("id", of)
	if len(events) != 5 {
		t.Errorf("%d events", len(events))
	}
	for _, e := range events {
		if text := string(e.Message); strings.Contains(text, "S3CRET") || !strings.Contains(text, "***") {
			t.Errorf("%s", text)
		}
	}
	if sub.Token != "S3CRET" {
		t.Error("the command itself has changed")
	}
}

// TestWithoutTapsAlloc: who is not watched costs no allocation.
func TestWithoutTapsAlloc(t *testing.T) {
	table := tap.New("n")
	defer table.Close()
	cmd, who, id := rpc(`1`), tap.Client(client("v")), tap.ID(client("v"))
	told := func() { table.Received(id, who, cmd) }
	if n := testing.AllocsPerRun(100, told); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_, _, _ = table.Fetch("id", observe.Tap{Kind: observe.TapUser, Entity: "u"})
	if n := testing.AllocsPerRun(100, told); n != 0 {
		t.Errorf("%v allocations while another user is watched", n)
	}
}
