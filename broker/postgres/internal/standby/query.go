package standby

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker/postgres/internal/changefeed"
)

// Query is a statement about channels of a shard.
type Query struct {
	Table string // the outbox
	Shard int
	SQL   string
	Args  []any
	Each  func(pgx.Rows) error // reads a row
}

// Sender is a connection, a pool or a transaction.
type Sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

var errBehind = errors.New("the server lacks what this node has seen")

// Ask executes a query, and returns the newest row of its shard after that, which shows how new the answer is, in one
// transaction. A server without the row floor, if it is given, makes the error errBehind. Rows come in any case, and
// count only without an error.
func (q *Query) Ask(ctx context.Context, db Sender, floor *Row) (newest Row, err error) {
	var batch pgx.Batch
	if floor != nil {
		batch.Queue("SELECT EXISTS (SELECT FROM "+q.Table+" WHERE shard_id = $1 AND id = $2 AND created_at = $3)", q.Shard, floor.ID, floor.Created)
	}
	batch.Queue(q.SQL, q.Args...)
	batch.Queue(changefeed.InOrder)
	batch.Queue("SELECT id, created_at FROM "+q.Table+" WHERE shard_id = $1 ORDER BY id DESC LIMIT 1", q.Shard)
	results := db.SendBatch(ctx, &batch)
	newest, err = q.read(results, floor != nil)
	// Only the end of the batch says whether the transaction was committed.
	if closed := results.Close(); err == nil {
		err = closed
	}
	return newest, err
}

func (q *Query) read(results pgx.BatchResults, proof bool) (newest Row, err error) {
	if proof {
		var there bool
		if err := results.QueryRow().Scan(&there); err != nil {
			return newest, err
		}
		if !there {
			return newest, errBehind
		}
	}
	rows, err := results.Query()
	if err != nil {
		return newest, err
	}
	if err := each(rows, q.Each); err != nil {
		return newest, err
	}
	if _, err := results.Exec(); err != nil {
		return newest, err
	}
	err = results.QueryRow().Scan(&newest.ID, &newest.Created)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return newest, err
}

// Plain executes the query alone.
func (q *Query) Plain(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) error {
	rows, err := db.Query(ctx, q.SQL, q.Args...)
	if err != nil {
		return err
	}
	return each(rows, q.Each)
}

func each(rows pgx.Rows, read func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
