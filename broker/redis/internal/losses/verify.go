package losses

import (
	"context"
	"strings"

	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/channel"
)

// Candidate is a publication that a stream should hold.
type Candidate struct {
	Publication
	hash        uint64  // of the channel
	top         uint64  // the greatest offset that the stream is known to have had in this epoch
	earlier     Epochs  // of the stream, as far as they are known
	stale       string  // the epoch to renew, if the stream lost the publication
	acked       *Acked  // remembers the publication, unless stream is set
	stream      *Stream // remembers the publication
	provisional *string // of stream, when the verification began
}

// Candidates returns all remembered publications.
func (a *Acked) Candidates() []Candidate {
	var list []Candidate
	for _, p := range a.All() {
		list = append(list, Candidate{Publication: p.Publication, top: p.Offset, hash: format.Hash(p.Channel), earlier: p.Earlier, acked: a})
	}
	return list
}

// Verifier compares the streams of a shard with publications that they should hold.
type Verifier struct {
	Client *servers.Client
	Names  *format.Names
	Kinds  *commands.HistoryScripts
	// RolledBack: a publication that cannot be verified counts as lost.
	RolledBack bool
}

// Verify takes at most servers.MaxPipeline candidates. It gives streams that have lost their candidates other epochs. It
// returns these candidates, and the candidates whose streams had another epoch already, and notes the new epochs.
func (c *Verifier) Verify(ctx context.Context, candidates []Candidate) (lost, moved []Candidate, err error) {
	text := commands.NewStrings(commands.MaxChunk)
	calls := make([]commands.Call, len(candidates))
	for i := range candidates {
		call, p := &calls[i], &candidates[i]
		call.Script = c.Kinds.Entry
		call.Key(text.Name(c.Names, c.Kinds.History, p.Channel, p.hash), text.Name(c.Names, c.Kinds.Meta, p.Channel, p.hash))
		call.Arg(text.Number(p.Offset))
	}
	answers, _ := commands.RunAll(ctx, c.Client, calls, nil)
	for i := range candidates {
		p := &candidates[i]
		top, entry, err := commands.ReadEntry(&answers[i])
		switch {
		case foreign(err):
		case err != nil:
			return nil, nil, c.Client.Explain(err)
		case p.earlier.Has(top.Epoch):
			p.stale = strings.Clone(top.Epoch)
			lost = append(lost, *p)
		case top.Epoch != p.Epoch:
			p.move(top)
			moved = append(moved, *p)
		case p.holds(top.Offset, entry, c.RolledBack):
			p.stream.Confirm(p.provisional)
		default:
			p.stale = p.Epoch
			lost = append(lost, *p)
		}
	}
	return lost, moved, c.renew(ctx, lost)
}

// foreign: a key has another type, so there is no stream. That must not hold up the other channels.
func foreign(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// holds: without an entry at its offset, which may have been trimmed, a stream of the same epoch counts as holding the
// publication, unless the data went back and later publications were not delivered here.
func (c *Candidate) holds(top uint64, entry string, rolledBack bool) bool {
	if top < c.top {
		return false
	}
	if entry != "" && c.Sum != 0 {
		return TextSum(entry) == c.Sum
	}
	return top == c.top || c.stream == nil || !rolledBack
}

func (c *Verifier) renew(ctx context.Context, lost []Candidate) error {
	if len(lost) == 0 {
		return nil
	}
	text := commands.NewStrings(512)
	calls := make([]commands.Call, len(lost))
	for i := range lost {
		call, p := &calls[i], &lost[i]
		call.Script = commands.Renew
		call.Key(text.Name(c.Names, c.Kinds.Meta, p.Channel, p.hash))
		call.Arg(p.stale, text.Epoch())
	}
	answers, _ := commands.RunAll(ctx, c.Client, calls, nil)
	for i := range answers {
		top, err := commands.ReadRenewed(&answers[i])
		if err != nil && !foreign(err) {
			return c.Client.Explain(err)
		}
		lost[i].move(top)
	}
	return nil
}

func (c *Candidate) move(top channel.StreamPosition) {
	top.Epoch = strings.Clone(top.Epoch)
	if c.stream == nil {
		c.acked.Moved(c.hash, &c.Publication, top.Epoch, top.Offset, c.stale)
		return
	}
	c.stream.Moved(c.Epoch, top)
}
