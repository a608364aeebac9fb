package nodetest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
)

// Trio is a cluster of three nodes on a bus.
type Trio struct {
	Bus     *bustest.Bus
	Engines []*bustest.Engine
	Nodes   []*gyro.Node
}

// NewTrio returns three nodes, in virtual time, that know each other.
func NewTrio(t *testing.T, h gyro.Handlers) *Trio { return NewTrioOf(t, gyro.Config{Handlers: h}) }

// NewTrioOf is NewTrio with nodes that differ by name and engine alone.
func NewTrioOf(t *testing.T, cfg gyro.Config) *Trio {
	x := &Trio{Bus: bustest.New(t)}
	presence := memory.NewPresence(memory.Config{})
	for i := range 3 {
		e := x.Bus.Engine()
		x.Engines = append(x.Engines, e)
		cfg.Name, cfg.Version, cfg.Broker, cfg.Presence, cfg.Logger = fmt.Sprint("node", i), "v", e, presence, Quiet
		x.Nodes = append(x.Nodes, Run(t, cfg))
	}
	synctest.Wait()
	return x
}

// Plain hides the traits of a broker: it is not local, and takes no batches.
func Plain(b broker.Broker) broker.Broker { return plain{b} }

type plain struct{ broker.Broker }

func (plain) Describe() broker.Traits { return broker.Traits{Name: "plain"} }
