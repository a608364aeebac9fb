package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// chaos is how long faults last. Then everything works again, and by the end of the run all promises must hold.
	chaos = 15 * time.Second
	quiet = 17 * time.Second
)

// plan is all that a seed decides beforehand, so that a smaller plan can be run.
type plan struct {
	Seed     uint64
	Engine   string
	Nodes    int
	Clients  int
	Models   int      // of 1,000 clients: models of the public SDKs
	Rude     int      // of 1,000 clients: models of SDKs with faults
	Names    []string // of the channels
	Expiring bool     // tokens expire
	Cached   bool     // nodes keep maps in their memory
	Recover  int      // most publications at a time; 0: all
	Network  settings
	Steps    []step
	Strikes  []strike
	// GoesBack: Redis may lose its newest data. Nodes notice that by what they remember, so they stay.
	GoesBack bool
}

// settings of the simulated networks, and chances of 1,000.
type settings struct {
	Lag, Jitter              time.Duration // of clients
	EngineLag, EngineJitter  time.Duration
	Loss, Double, Mute, Fail int // of the engine
	HandlerDelay             time.Duration
	// Chances that a handler refuses or panics.
	HandlerFails, HandlerPanics int
	// Bytes of a connection's buffer and of a client's queue, and how many commands of a client there are at a time. 0: as
	// in plans that name none.
	Room, Queue, Commands int
	CheckDelay            time.Duration // between checks of positions
	// Skew is how far the clock of a machine is wrong at most at the begin, Drift how much it gains or loses at most, in
	// parts of a million.
	Skew  time.Duration
	Drift int
}

// step is something that happens at a time: an action of a client or a backend, or a fault. Number tells what it is
// about: a client, a node or a channel.
type step struct {
	At     time.Duration
	Kind   string
	Number int
	Other  int
}

func (s step) String() string { return fmt.Sprintf("%v %s %d %d", s.At, s.Kind, s.Number, s.Other) }

// Engines of a plan.
const (
	onReference = "reference"
	onRedis     = "redis" // the real one, over a simulated Redis
	// onStaleRedis is onRedis with data that go back, which a third of the plans of onRedis have.
	onStaleRedis = "stale-redis"
)

type stepKind struct {
	kind   string
	weight int
}

// kinds of steps with their weights.
var kinds = []stepKind{
	{"publish", 60}, {"subscribe", 12}, {"unsubscribe", 6}, {"client publish", 10}, {"connect", 6}, {"disconnect", 4},
	{"reset", 8}, {"half open", 3}, {"slow", 3}, {"read", 4},
	{"sever", 3}, {"mend", 4}, {"crash", 1}, {"stop", 1}, {"drain", 1}, {"start", 4}, {"partition", 1}, {"heal", 2},
	{"engine down", 1}, {"engine up", 2}, {"replicate", 3}, {"failover", 1},
	{"kick", 2}, {"take away", 3}, {"give", 3}, {"expire", 1}, {"survey", 2}, {"clock", 2}, {"reload", 3}, {"ask", 8}, {"trick", 6}, {"clear", 1}, {"forget", 1},
}

// on returns the plan for another engine, with the faults that this engine has beside.
func (p *plan) on(engine string) *plan {
	if engine == onRedis || engine == onStaleRedis {
		p.Engine = onRedis
		r := stream(p.Seed, "plan of Redis")
		if p.GoesBack = r.IntN(3) == 0 || engine == onStaleRedis; p.GoesBack {
			p.Steps = slices.DeleteFunc(p.Steps, func(s step) bool { return slices.Contains([]string{"crash", "stop", "drain", "reload"}, s.Kind) }) // a reload leaves subscriptions without positions
			p.Strikes = slices.DeleteFunc(p.Strikes, func(s strike) bool { return s.Fault == "crash" || s.Fault == "stop" })
			p.Names = nil // the book follows these streams through losses
			for i := range 1 + r.IntN(5) {
				p.Names = append(p.Names, fmt.Sprint("ch", i))
			}
		}
		p.draw(r, len(p.Steps)/8, redisKinds)
	}
	return p
}

func newPlan(seed uint64) *plan {
	r := stream(seed, "plan")
	p := &plan{Seed: seed, Engine: onReference, Nodes: 1 + r.IntN(5), Clients: 10 + r.IntN(30), Names: newChannels(r), Expiring: r.IntN(3) == 0, Cached: r.IntN(3) == 0, Recover: r.IntN(2) * 12}
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most+1)) * time.Millisecond }
	p.Network = settings{
		Lag: ms(20), Jitter: ms(60), EngineLag: ms(3), EngineJitter: ms(20),
		Loss: rarely(r, 60), Double: rarely(r, 30), Mute: rarely(r, 20), Fail: rarely(r, 40),
		HandlerDelay: ms(100), HandlerFails: rarely(r, 60), HandlerPanics: rarely(r, 20),
	}
	p.Network.bound(stream(seed, "plan of bounds"), len(p.Names))
	p.Network.skew(stream(seed, "plan of clocks"))
	p.Models, p.Rude = 500, rarely(r, 300)
	p.draw(r, 50+r.IntN(400), kinds)
	p.Strikes = strikes(seed)
	return p
}

// bound chooses limits that runs meet.
func (n *settings) bound(r *rand.Rand, channels int) {
	n.Room, n.Queue, n.CheckDelay = 256<<r.IntN(8), 64<<10, 3*time.Second
	if r.IntN(2) == 0 { // a client that reads nothing has too much soon; one that reads recovers all channels at once
		n.Queue = 4 << 10 << r.IntN(3)
		n.Room = max(n.Room, n.Queue*channels)
	}
	n.Commands = 2 << r.IntN(6)
	if n.Loss == 0 && r.IntN(2) == 0 { // the engine tells of each loss
		n.CheckDelay = 5 * time.Second
	}
}

// skew makes the clocks differ.
func (n *settings) skew(r *rand.Rand) {
	n.Skew = [...]time.Duration{0, 3 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 5 * time.Minute}[r.IntN(5)]
	n.Drift = rarely(r, 500)
}

// draw adds steps of some kinds.
func (p *plan) draw(r *rand.Rand, n int, kinds []stepKind) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for range n {
		at := time.Duration(r.Int64N(int64(chaos)))
		w := r.IntN(total)
		i := 0
		for ; w >= kinds[i].weight; i++ {
			w -= kinds[i].weight
		}
		p.Steps = append(p.Steps, step{at, kinds[i].kind, r.IntN(1000), r.IntN(1000)})
	}
	slices.SortStableFunc(p.Steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
}

// rarely returns 0 for half of the seeds.
func rarely(r *rand.Rand, most int) int {
	if r.IntN(2) == 0 {
		return 0
	}
	return r.IntN(most + 1)
}
