package schema

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockTimeout is how long changes of partitions wait for transactions that use their table: publishers queue behind
// them.
const lockTimeout = "SET LOCAL lock_timeout = '300ms'"

const dayFormat = "2006_01_02"

// Partition makes the missing partitions of today and of lookahead further days, by the server's clock. Each day is a
// transaction. Rows that the default partition took meanwhile move to them.
func (s *Set) Partition(ctx context.Context, db Querier, lookahead int) error {
	return s.partition(ctx, db, lookahead, lockTimeout)
}

// partition executes first in front of each day, unless it is empty.
func (s *Set) partition(ctx context.Context, db Querier, lookahead int, first string) error {
	days, today, err := s.partitions(ctx, db)
	if err != nil {
		return err
	}
	for d := range lookahead + 1 {
		day := today.AddDate(0, 0, d)
		if days[day] {
			continue
		}
		if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return s.addDay(ctx, tx, day, first) }); err != nil {
			return fmt.Errorf("partition %s: %w", s.dayName(day), err)
		}
		days[day] = true
	}
	s.Partitions.Store(int64(len(days)))
	return nil
}

func (s *Set) dayName(day time.Time) string { return s.Outbox + "_" + day.Format(dayFormat) }

// partitions returns the days that have a partition, and today.
func (s *Set) partitions(ctx context.Context, db Querier) (days map[time.Time]bool, today time.Time, err error) {
	const list = `SELECT (now() AT TIME ZONE 'UTC')::date, coalesce(array_agg(c.relname::text), '{}') FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass($1)`
	var names []string
	if err := db.QueryRow(ctx, list, s.Outbox).Scan(&today, &names); err != nil {
		return nil, today, err
	}
	days = make(map[time.Time]bool)
	for _, name := range names {
		if len(name) <= len(s.Outbox) {
			continue
		}
		if day, err := time.Parse(dayFormat, name[len(s.Outbox)+1:]); err == nil {
			days[day] = true
		}
	}
	return days, today, nil
}

// addDay attaches a partition. Creating it in place would lock out all who use the table.
func (s *Set) addDay(ctx context.Context, tx pgx.Tx, day time.Time, first string) error {
	name := s.dayName(day)
	from, to := day.Format(time.DateOnly)+" 00:00:00+00", day.AddDate(0, 0, 1).Format(time.DateOnly)+" 00:00:00+00"
	if first != "" {
		if _, err := tx.Exec(ctx, first); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", s.Outbox); err != nil {
		return err
	}
	var exists bool // another node was faster
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists); err != nil || exists {
		return err
	}
	for _, statement := range []string{
		fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL)", name, s.Outbox),
		fmt.Sprintf("WITH moved AS (DELETE FROM %s_default WHERE created_at >= '%s' AND created_at < '%s' RETURNING *) INSERT INTO %s SELECT * FROM moved",
			s.Outbox, from, to, name),
		fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", s.Outbox, name, from, to),
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Drop drops partitions whose newest row is older than so many days, and such rows of the default partition.
func (s *Set) Drop(ctx context.Context, db Querier, retention int) error {
	days, today, err := s.partitions(ctx, db)
	if err != nil {
		return err
	}
	oldest := today.AddDate(0, 0, -retention)
	for day := range days {
		if !day.Before(oldest) {
			continue
		}
		if err := dropTable(ctx, db, s.dayName(day)); err != nil {
			return fmt.Errorf("partition %s: %w", s.dayName(day), err)
		}
		s.Partitions.Add(-1)
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM "+s.Outbox+"_default WHERE created_at < $1", oldest)
		return err
	})
}

func dropTable(ctx context.Context, db Querier, name string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockTimeout); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+name)
		return err
	})
}
