package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
	"github.com/gyrohq/gyro/channel"
)

// readTries is how often a read is repeated because the stream began or ended meanwhile.
const readTries = 5

// History implements broker.Broker. It looks for the channel among the streams, then among the maps. An unknown one gets
// a row, so that its epoch stays. A position is not renewed while its remaining time is enough.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	shard, err := b.shardOf(ctx, ch)
	if err != nil {
		return broker.History{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	ttl := micros(enginekit.PositiveOr(filter.MetaTTL, b.cfg.HistoryMetaTTL))
	if h, ok := b.historyOfReplica(ctx, shard, ch, &filter, ttl); ok {
		return h, nil
	}
	for range readTries {
		stream, err := readStream(ctx, b.primary(shard), streamTable, ch, &filter, ttl)
		if err == nil && stream.renew {
			_, err = b.db.Exec(ctx, b.sql.read[streamTable]["renew"], []string{ch}, ttl)
		}
		if err != nil || stream.Top.Offset > 0 {
			return stream.History, b.explain(err)
		}
		changes, err := readStream(ctx, b.primary(shard), mapTable, ch, &filter, ttl) // the changes of a map say how long it lives
		switch {
		case err != nil || changes.known:
			return changes.History, b.explain(err)
		case stream.known:
			return stream.History, nil
		}
		if err := b.createStreams(ctx, []string{ch}, ttl); err != nil {
			return broker.History{}, b.explain(err)
		}
	}
	return broker.History{}, b.explain(errUnsteady)
}

type answer struct {
	broker.History
	known bool
	renew bool // the position lives for less than it should
}

func readStream(ctx context.Context, from reader, table int, ch string, f *broker.HistoryFilter, ttl int64) (a answer, err error) {
	name, args := readArgs(ch, f, ttl)
	var offset int64
	err = from(ctx, table, name, args, func(rows pgx.Rows) error {
		a.known = true
		if name == "position" {
			return rows.Scan(&offset, &a.Top.Epoch, &a.renew)
		}
		var r schema.Row
		if err := r.Scan(rows, &offset, &a.Top.Epoch, &a.renew); err != nil {
			return err
		}
		if r.Pub.Offset > 0 { // else there is no publication
			a.Publications = append(a.Publications, &r.Pub)
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	a.Top.Offset = uint64(offset)
	return a, nil
}

// readArgs returns the name and the arguments of a statement of read.sql.
func readArgs(ch string, f *broker.HistoryFilter, ttl int64) (name string, args []any) {
	args = []any{ch, ttl}
	if f.Limit == 0 {
		return "position", args
	}
	var limit *int64
	if f.Limit > 0 {
		limit = new(int64(f.Limit))
	}
	switch {
	case f.Since == nil && f.Reverse:
		return "reverse", append(args, int64(math.MaxInt64), limit)
	case f.Since == nil:
		return "forward", append(args, int64(0), limit)
	case f.Reverse:
		return "reverse", append(args, int64(min(f.Since.Offset, math.MaxInt64))-1, limit)
	default:
		return "forward", append(args, int64(min(f.Since.Offset, math.MaxInt64-1))+1, limit)
	}
}

func (b *Broker) createStreams(ctx context.Context, channels []string, ttl int64) (err error) {
	for range writeTries {
		if _, err = b.db.Exec(ctx, b.sql.read[streamTable]["create"], channels, ttl); err == nil || !undone(err) {
			break
		}
	}
	if err == nil {
		b.changed(ctx, streamTable, channels...)
	}
	return err
}

// Positions is Traits.Positions, with a few statements for all channels.
func (b *Broker) Positions(ctx context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult {
	results := make([]broker.PositionResult, len(channels))
	ask := make([]string, 0, len(channels))
	for i, ch := range channels {
		if _, results[i].Err = b.shardOf(ctx, ch); results[i].Err == nil {
			ask = append(ask, ch)
		}
	}
	if len(ask) == 0 {
		return results
	}
	tops, err := b.tops(ctx, ask, enginekit.PositiveOr(metaTTL, b.cfg.HistoryMetaTTL))
	for i, ch := range channels {
		if results[i].Err != nil {
			continue
		}
		top, known := tops[ch]
		switch {
		case err != nil:
			results[i].Err = b.explain(err)
		case !known:
			results[i].Err = b.explain(errUnsteady)
		default:
			results[i].Top = top
		}
	}
	return results
}

func (b *Broker) tops(ctx context.Context, channels []string, metaTTL time.Duration) (map[string]channel.StreamPosition, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	ttl := micros(metaTTL)
	tops := make(map[string]channel.StreamPosition, len(channels))
	missing := slices.Clone(channels)
	for range readTries {
		if err := b.topsOf(ctx, streamTable, missing, ttl, tops); err != nil {
			return nil, err
		}
		empty := func(ch string) bool { return tops[ch].Offset == 0 }
		if err := b.topsOf(ctx, mapTable, keep(missing, empty), ttl, tops); err != nil {
			return nil, err
		}
		missing = keep(missing, func(ch string) bool { return tops[ch].Epoch == "" })
		if len(missing) == 0 {
			break
		}
		if err := b.createStreams(ctx, missing, ttl); err != nil {
			return nil, err
		}
	}
	return tops, nil
}

func (b *Broker) topsOf(ctx context.Context, table int, channels []string, ttl int64, tops map[string]channel.StreamPosition) error {
	if len(channels) == 0 {
		return nil
	}
	rows, err := b.db.Query(ctx, b.sql.read[table]["positions"], channels, ttl)
	if err != nil {
		return err
	}
	var ch, epoch string
	var offset int64
	var renew bool
	var renewed []string
	_, err = pgx.ForEachRow(rows, []any{&ch, &offset, &epoch, &renew}, func() error {
		tops[ch] = channel.StreamPosition{Offset: uint64(offset), Epoch: epoch}
		if renew {
			renewed = append(renewed, ch)
		}
		return nil
	})
	if err == nil && len(renewed) > 0 && table == streamTable {
		_, err = b.db.Exec(ctx, b.sql.read[table]["renew"], renewed, ttl)
	}
	return err
}

func keep(list []string, want func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !want(s) })
}

// RemoveHistory implements broker.Broker. Rows that other nodes may still have to deliver stay a while, but are no history.
func (b *Broker) RemoveHistory(ctx context.Context, ch string) error {
	if _, err := b.shardOf(ctx, ch); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	_, err := b.db.Exec(ctx, b.sql.remove, ch)
	if err == nil {
		b.changed(ctx, streamTable, ch)
	}
	return b.explain(err)
}
