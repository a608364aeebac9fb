package session

import "github.com/gyrohq/gyro/internal/hub"

// Window is how long messages of the channel are to be held back, as the options of
// the subscription have it. It is known while the subscription joins.
func (b *Subscription) Window() hub.Window {
	if b.setup == nil || b.setup.opts == nil {
		return hub.Window{}
	}
	return hub.Window{Delay: b.setup.opts.BatchMaxDelay, Size: b.setup.opts.BatchMaxSize}
}
