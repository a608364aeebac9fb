package losses

import (
	"cmp"
	"context"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

// markTTL is for how long marks are found again.
const markTTL = 24 * time.Hour

const sampleTTL = time.Minute

// Marks find out that the data of a server went back, and that it takes no publications. Any goroutine may call the
// methods.
//
// A server can get older data without a restart: by DEBUG RELOAD, by REPLICAOF a stale copy and back, or when the former
// owner of a slot takes the slot back. Only the data can show that. Therefore each node writes keys of its own, the
// marks, again and again, with a number that grows.
//
// A server can deliver and store nothing: it is out of memory, it is a replica, or a permission is missing. Therefore
// the node writes a publication with history beside each mark, the sample.
type Marks struct {
	names   *format.Names
	node    string
	tags    []string         // of the slots; constant
	publish *commands.Script // with history

	turn   chan struct{} // has an element during a round trip: marks are written one after the other
	number uint64
	last   []acknowledgedMark // by tag
}

type acknowledgedMark struct {
	number      uint64
	replication string
}

// NewMarks is for the slots of these hash tags. publish writes the samples.
func NewMarks(names *format.Names, node string, tags []string, publish *commands.Script) *Marks {
	return &Marks{names: names, node: node, tags: tags, publish: publish, turn: make(chan struct{}, 1), last: make([]acknowledgedMark, len(tags))}
}

// Finding is the result of writing marks.
type Finding struct {
	Written     bool // at least one mark was written
	RolledBack  bool // a server has lost data that it acknowledged
	Replication bool // a server has another replication ID than before
	// Err is the first error of a mark or a sample.
	Err error
}

// Write writes the marks, and compares them with what was written last.
func (m *Marks) Write(ctx context.Context, client *servers.Client) (f Finding) {
	if len(m.tags) == 0 {
		return f
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return Finding{Err: ctx.Err()}
	}
	defer func() { <-m.turn }()
	m.number++
	answers, _ := commands.RunAll(ctx, client, m.calls(), nil)
	for i := range m.tags {
		f.Err = cmp.Or(f.Err, answers[len(m.tags)+i].Error())
		number, replication, err := commands.ReadMark(&answers[i])
		if err != nil {
			f.Err = cmp.Or(f.Err, err)
			continue
		}
		before := &m.last[i]
		f.Written = true
		f.RolledBack = f.RolledBack || number < before.number
		f.Replication = f.Replication || before.number > 0 && replication != before.replication
		*before = acknowledgedMark{m.number, replication}
	}
	return f
}

func (m *Marks) calls() []commands.Call {
	var text commands.Strings
	n := len(m.tags)
	calls := make([]commands.Call, 2*n)
	number, life := text.Number(m.number), text.Milliseconds(sampleTTL)
	for i, tag := range m.tags {
		mark, sample := &calls[i], &calls[n+i]
		mark.Script = commands.Mark
		mark.Key(m.names.Mark(m.node, tag))
		mark.Arg(number, text.Milliseconds(markTTL))
		sample.Script = m.publish
		sample.Key(m.names.Sample(m.node, tag))
		sample.Arg(number, "1", life, "", life, text.Life("", 0))
	}
	return calls
}
