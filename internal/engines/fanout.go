package engines

import (
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/route"
	"github.com/gyrohq/gyro/internal/tap"
)

// Fanout hands the events of a broker to the loops that have subscribers.
type Fanout struct {
	Routes *route.Table
	Loops  []*loop.Loop
	// Lost starts a check of the positions in matching channels.
	Lost func(match func(ch string) bool)
	Taps *tap.Table
	// Keyed takes a publication if it is of a shared poll channel.
	Keyed func(ch string, p broker.PublicationEvent) bool
}

func (f *Fanout) HandlePublication(ch string, p broker.PublicationEvent) {
	if f.Keyed(ch, p) {
		return
	}
	m := hub.NewMessage()
	m.Channel, m.Pub, m.Epoch, m.Memory = ch, p.Pub, p.Epoch, p.Memory
	if p.Delta {
		m.Prev = p.Prev
	}
	f.Post(m)
}

func (f *Fanout) HandleJoin(ch string, info *channel.ClientInfo) {
	f.Post(&hub.Message{Channel: ch, Kind: hub.KindJoin, Info: info})
}

func (f *Fanout) HandleLeave(ch string, info *channel.ClientInfo) {
	f.Post(&hub.Message{Channel: ch, Kind: hub.KindLeave, Info: info})
}

func (f *Fanout) HandleLoss(match func(ch string) bool) { f.Lost(match) }

// Post posts a message to the loops with subscribers of its channel.
func (f *Fanout) Post(m *hub.Message) {
	f.Taps.Published(m.Channel, m)
	r := f.Routes.Find(m.Channel)
	if r == nil {
		m.Share(0)
		return
	}
	m.ID = r.ID()
	loops := r.Loops()
	m.Share(loops.Count(len(f.Loops)))
	for i, l := range f.Loops {
		if loops.Has(i) {
			l.PostMessage(m)
		}
	}
}

var _ broker.EventHandler = (*Fanout)(nil)
