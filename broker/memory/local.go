package memory

import "github.com/gyrohq/gyro/broker"

// Local implements broker.Local: no lock of the methods that it speaks of is held
// during a handler call, and none for longer than one operation takes.
func (b *Broker) Local() {}

// Local implements broker.Local.
func (p *Presence) Local() {}

var (
	_ broker.Local = (*Broker)(nil)
	_ broker.Local = (*Presence)(nil)
)
