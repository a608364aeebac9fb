package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres/internal/row"
	"github.com/gyrohq/gyro/channel"
)

// readTries is how often a read is repeated because the stream began or ended meanwhile.
const readTries = 5

// History implements broker.Broker. A channel is looked for among the streams and then among the maps. An unknown one gets
// a row, so that its epoch stays. A position is rarely renewed: as long as the time that it has left is enough, it is not.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	if _, err := b.place(ctx, ch); err != nil {
		return broker.History{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	ttl := micros(positiveOr(filter.MetaTTL, b.cfg.HistoryMetaTTL))
	for range readTries {
		stream, known, err := b.readStream(ctx, streamTable, ch, &filter, ttl)
		if err != nil || stream.Top.Offset > 0 {
			return stream, b.explain(err)
		}
		changes, isMap, err := b.readStream(ctx, mapTable, ch, &filter, ttl)
		switch {
		case err != nil || isMap:
			return changes, b.explain(err)
		case known:
			return stream, nil
		}
		if err := b.createStreams(ctx, []string{ch}, ttl); err != nil {
			return broker.History{}, b.explain(err)
		}
	}
	return broker.History{}, b.explain(errUnsteady)
}

// readStream reads the stream of a channel in one of the tables. known is false if there is none.
func (b *Broker) readStream(ctx context.Context, table int, ch string, f *broker.HistoryFilter, ttl int64) (h broker.History, known bool, err error) {
	name, args := readArgs(ch, f, ttl)
	rows, err := b.db.Query(ctx, b.sql.read[table][name], args...)
	if err != nil {
		return h, false, err
	}
	defer rows.Close()
	var offset int64
	var renew bool
	for rows.Next() {
		known = true
		if name == "position" {
			if err := rows.Scan(&offset, &h.Top.Epoch, &renew); err != nil {
				return broker.History{}, false, err
			}
			continue
		}
		var r row.Row
		if err := r.Scan(rows, &offset, &h.Top.Epoch, &renew); err != nil {
			return broker.History{}, false, err
		}
		if r.Pub.Offset > 0 { // else there is no publication
			h.Publications = append(h.Publications, &r.Pub)
		}
	}
	if err := rows.Err(); err != nil {
		return broker.History{}, false, err
	}
	h.Top.Offset = uint64(offset)
	if renew && table == streamTable { // the changes of a map say how long it lives
		_, err = b.db.Exec(ctx, b.sql.read[table]["renew"], []string{ch}, ttl)
	}
	return h, known, err
}

// readArgs returns the name of a statement of read.sql, and its arguments.
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

// createStreams begins streams without publications, unless others have.
func (b *Broker) createStreams(ctx context.Context, channels []string, ttl int64) (err error) {
	for range writeTries {
		if _, err = b.db.Exec(ctx, b.sql.read[streamTable]["create"], channels, ttl); err == nil || !undone(err) {
			break
		}
	}
	return err
}

// Positions is Traits.Positions, with a few statements for all channels.
func (b *Broker) Positions(ctx context.Context, channels []string) []broker.PositionResult {
	results := make([]broker.PositionResult, len(channels))
	ask := make([]string, 0, len(channels))
	for i, ch := range channels {
		if _, results[i].Err = b.place(ctx, ch); results[i].Err == nil {
			ask = append(ask, ch)
		}
	}
	if len(ask) == 0 {
		return results
	}
	tops, err := b.tops(ctx, ask)
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

func (b *Broker) tops(ctx context.Context, channels []string) (map[string]channel.StreamPosition, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	ttl := micros(b.cfg.HistoryMetaTTL)
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

// topsOf adds the positions of a table to tops.
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

// keep returns the elements for which want is true.
func keep(list []string, want func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !want(s) })
}

// RemoveHistory implements broker.Broker. Rows that other nodes may still have to deliver stay a while, but are no history.
func (b *Broker) RemoveHistory(ctx context.Context, ch string) error {
	if _, err := b.place(ctx, ch); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	_, err := b.db.Exec(ctx, b.sql.remove, ch)
	return b.explain(err)
}
