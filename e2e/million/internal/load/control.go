//go:build linux

package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/books"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
)

// Setup is the first line that a load process gets.
type Setup struct {
	Index, Conns, Loads int
	Nodes               []string // host:port
	Sources             []string // IPv4 addresses that connections come from
	Secret              string   // of the tokens
}

// Order is a command to a load process: a line, as is the Report that answers it.
type Order struct {
	// Connect is how many of its connections shall be there. They stay until the process ends, and come back if they are
	// cut.
	Connect int `json:",omitempty"`
	// Window is how many may be on their way to be subscribed: others wait, even if their pause is over. 0: no change.
	Window int `json:",omitempty"`
	// Avoid are nodes that a load balancer would leave out now; Open clears the list.
	Avoid []int `json:",omitempty"`
	Open  bool  `json:",omitempty"`
	// Seen are the connections of all load processes by node, as a load balancer knows them.
	Seen []int `json:",omitempty"`
	// Issued are channels with their numbers of messages. Those that subscribers do not have are lost.
	Issued [][2]uint64 `json:",omitempty"`
	// Reset forgets the latencies so far; Latencies asks for them.
	Reset     bool `json:",omitempty"`
	Latencies bool `json:",omitempty"`
	// Apart are channels whose deliveries are recorded apart, from Reset on.
	Apart []plan.Channel `json:",omitempty"`
	Where bool           `json:",omitempty"`
}

type Report struct {
	Live    int // subscribed
	Opening int // on their way
	Waiting int // before the next attempt

	Plain       books.Book // of channels without history
	Recoverable books.Book

	Pings       uint64            // answered
	Bytes       uint64            // received
	Cuts        map[string]uint64 // ends of connections and subscriptions by the reason that the server gave
	Refusals    map[string]uint64 // failures of attempts by their reasons
	Returned    uint64            // subscriptions that were cut, and are back
	Recovered   uint64            // of them, with the missed messages
	Unrecovered uint64            // of them, told that something is missing

	Delivery *hdrhistogram.Snapshot `json:",omitempty"` // microseconds from when a publication was due
	Apart    *hdrhistogram.Snapshot `json:",omitempty"` // the same, of the channels that an order has named
	Joining  *hdrhistogram.Snapshot `json:",omitempty"` // from the first packet to the subscription
	Return   *hdrhistogram.Snapshot `json:",omitempty"` // from the cut to the subscription
	Where    []int                  `json:",omitempty"` // connections by node
}

// Unsubscribe begins keys of Cuts for subscriptions whose connection stays.
const Unsubscribe = "unsubscribe"

// Slowest is the end of histograms, in microseconds. Longer times count as that.
const Slowest = 10 * 60 * 1_000_000

func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, Slowest, 2) }

func record(h *hdrhistogram.Histogram, nanoseconds int64) {
	_ = h.RecordValue(min(max(nanoseconds/1000, 1), Slowest)) // within its bounds
}

// Run reads a Setup and orders from its input, writes reports to its output, and returns when the input ends.
func Run() error {
	if err := raise(); err != nil {
		return err
	}
	in, err := waitable(os.Stdin)
	if err != nil {
		return err
	}
	out, err := waitable(os.Stdout)
	if err != nil {
		return err
	}
	lines := json.NewDecoder(bufio.NewReader(in))
	var s Setup
	if err := lines.Decode(&s); err != nil {
		return fmt.Errorf("reading the setup: %w", err)
	}
	p, err := plan.New(s.Conns, len(s.Nodes), s.Loads)
	if err != nil {
		return err
	}
	l, err := newLoop(s, p)
	if err != nil {
		return err
	}
	orders, reports := make(chan *Order), make(chan *Report)
	go l.run(orders, reports)
	defer close(orders)
	answers := json.NewEncoder(out)
	for {
		o := new(Order)
		if err := lines.Decode(o); err != nil {
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("reading an order: %w", err)
		}
		orders <- o
		if err := answers.Encode(<-reports); err != nil {
			return err
		}
	}
}

// waitable returns a pipe at which a goroutine waits without a thread. A blocking read would need one, after which the
// scheduler's monitor would look every 20 us at first, in each load process after each order.
func waitable(f *os.File) (*os.File, error) {
	fd := f.Fd()
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(fd, f.Name()), nil
}

func raise() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	limit.Cur = limit.Max
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
}
