package schema

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Expired rows are deleted in batches, with pauses for others.
const (
	deleteBatch = 1000
	deletePause = 100 * time.Millisecond
)

// Execer is a connection or a pool.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// DeleteExpired leaves out rows that are about to be renewed.
func (s *Set) DeleteExpired(ctx context.Context, db Execer) error {
	for _, table := range s.Expiring {
		unless := ""
		if table == s.Meta {
			// Not NOT EXISTS: the planner may read the whole table for it.
			unless = " AND (SELECT true FROM " + s.State + " e WHERE e.channel = x.channel LIMIT 1) IS NULL"
		}
		sql := "DELETE FROM " + table + " WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM " + table +
			" x WHERE x.expires_at <= now()" + unless + " LIMIT $1 FOR UPDATE SKIP LOCKED))"
		for {
			tag, err := db.Exec(ctx, sql, deleteBatch)
			if err != nil {
				return err
			}
			if strings.HasSuffix(table, "_meta") {
				s.DeletedMeta.Add(uint64(tag.RowsAffected()))
			} else {
				s.Deleted.Add(uint64(tag.RowsAffected()))
			}
			if tag.RowsAffected() < deleteBatch {
				break
			}
			select {
			case <-time.After(deletePause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
