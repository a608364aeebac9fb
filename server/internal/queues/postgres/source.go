// Package postgres consumes an outbox: a table of PostgreSQL, whose partitions are consumed in parallel.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	startTimeout = 10 * time.Second
	listenPause  = time.Second
	// lagLimit is the most rows that are counted for the lag, and lagInterval how often.
	lagLimit    = 100_000
	lagInterval = 10 * time.Second
)

// Source is a queues.Source. Messages wait for earlier messages in their partition.
type Source struct {
	cfg        *config.PostgreSQLConsumer
	name       string // of the consumer: nodes that share a table have the same, as the locks are named after it
	deadLetter string // a table
	secure     bool   // with TLS, whatever the DSN says
	pool       *pgxpool.Config
	listen     *pgx.ConnConfig // nil: no notifications
	db         *pgxpool.Pool
	wake       []chan struct{} // by partition
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) {
	s := &Source{cfg: &c.PostgreSQL, name: c.Name, deadLetter: c.DeadLetter}
	tls, err := s.cfg.TLS.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("tls.%w", err)
	}
	s.secure = tls != nil
	if s.pool, err = pgxpool.ParseConfig(s.cfg.DSN); err != nil {
		return nil, errors.New("dsn: it does not parse") // the error may show the password
	}
	services.SecurePostgres(s.pool.ConnConfig, tls)
	if s.pool.ConnConfig.ConnectTimeout == 0 {
		s.pool.ConnConfig.ConnectTimeout = startTimeout
	}
	switch {
	case s.cfg.NotificationChannel == "":
	case s.cfg.NotificationDSN == "":
		s.listen = s.pool.ConnConfig.Copy()
	default:
		if s.listen, err = pgx.ParseConfig(s.cfg.NotificationDSN); err != nil {
			return nil, errors.New("partition_notification_dsn: it does not parse")
		}
	}
	for range s.cfg.NumPartitions {
		s.wake = append(s.wake, make(chan struct{}, 1))
	}
	return s, nil
}

// Connect implements queues.Source.
func (s *Source) Connect(ctx context.Context) (err error) {
	ctx, cancel := services.Bound(ctx, startTimeout)
	defer cancel()
	if s.db, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), s.pool); err != nil {
		return err
	}
	if err := s.db.Ping(ctx); err != nil {
		return services.Blame(s.optionFor(err), err)
	}
	return nil
}

// Probe implements queues.Source: it looks for the table.
func (s *Source) Probe(ctx context.Context) error {
	defer s.Close()
	if err := s.Connect(ctx); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, "SELECT id, method, payload, partition FROM "+s.cfg.OutboxTableName+" LIMIT 0"); err != nil {
		return services.Blame("outbox_table_name", err)
	}
	return nil
}

func (s *Source) optionFor(err error) string {
	if option := services.TLSOption("tls", err); option != "" {
		return option
	}
	switch text := err.Error(); {
	case strings.Contains(text, "requires a valid client certificate"):
		return "tls.cert_pem"
	case strings.Contains(text, "no encryption"), strings.Contains(text, "server refused TLS connection"):
		return "tls.enabled"
	}
	return cmp.Or(services.CutOff("dsn", s.secure, err), "dsn")
}

// Close implements queues.Source.
func (s *Source) Close() {
	if s.db != nil {
		s.db.Close()
	}
}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var wg sync.WaitGroup
	for i := range s.cfg.NumPartitions {
		wg.Go(func() { s.consume(ctx, work, p, i) })
	}
	if s.listen != nil {
		wg.Go(func() { s.notified(ctx, p) })
	}
	wg.Go(func() { s.measure(ctx, p) })
	wg.Wait()
	return nil
}

func (s *Source) consume(ctx, work context.Context, p *queues.Processor, partition int) {
	var outage logging.Outage
	what := "partition " + strconv.Itoa(partition)
	retry := 0
	for ctx.Err() == nil {
		more, failed, err := s.batch(ctx, work, p, partition)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			services.Sleep(ctx, p.Failed(&outage, what, err))
			continue
		}
		p.Works(&outage, what)
		switch {
		case failed:
			retry++
			services.Sleep(ctx, services.Backoff(retry))
		case more:
			retry = 0
		default:
			retry = 0
			s.wait(ctx, partition)
		}
	}
}

func (s *Source) wait(ctx context.Context, partition int) {
	t := time.NewTimer(s.cfg.PartitionPollInterval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.wake[partition]:
	case <-ctx.Done():
	}
}

// batch executes rows in a transaction, which holds the lock of the partition and deletes the rows that are done. failed
// tells that a row must be tried again. ctx interrupts the wait for the lock only.
func (s *Source) batch(ctx, work context.Context, p *queues.Processor, partition int) (more, failed bool, err error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, false, err
	}
	defer func() { _ = tx.Rollback(work) }() // does nothing after a commit
	if ok, err := s.lock(ctx, tx, partition); err != nil || !ok {
		return false, false, err
	}
	messages, ids, err := s.read(ctx, tx, partition)
	if err != nil || len(messages) == 0 {
		return false, false, err
	}
	p.Process(context.WithValue(work, transaction{}, tx), messages)
	done := make([]int64, 0, len(ids))
	for i, m := range messages {
		if m.Outcome == queues.Done {
			done = append(done, ids[i])
		}
	}
	if len(done) > 0 {
		// The rows stay if this fails, and are executed again.
		if _, err := tx.Exec(work, "DELETE FROM "+s.cfg.OutboxTableName+" WHERE id = ANY($1)", done); err != nil {
			return false, false, err
		}
		if err := tx.Commit(work); err != nil {
			return false, false, err
		}
	}
	return len(messages) == s.cfg.PartitionSelectLimit, len(done) < len(messages), nil
}

func (s *Source) lock(ctx context.Context, tx pgx.Tx, partition int) (ok bool, err error) {
	name := "centrifugo_partition_lock_" + s.name + strconv.Itoa(partition)
	if s.cfg.UseTryLock {
		err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtext($1))", name).Scan(&ok)
		return ok, err
	}
	_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", name)
	return err == nil, err
}

func (s *Source) read(ctx context.Context, tx pgx.Tx, partition int) (messages []*queues.Message, ids []int64, err error) {
	rows, err := tx.Query(ctx, "SELECT id, method, payload FROM "+s.cfg.OutboxTableName+" WHERE partition = $1 ORDER BY id LIMIT $2", partition, s.cfg.PartitionSelectLimit)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		m := new(queues.Message)
		if err := rows.Scan(&id, &m.Method, &m.Payload); err != nil {
			return nil, nil, err
		}
		m.ID = strconv.FormatInt(id, 10)
		messages, ids = append(messages, m), append(ids, id)
	}
	return messages, ids, rows.Err()
}

func (s *Source) notified(ctx context.Context, p *queues.Processor) {
	var outage logging.Outage
	const what = "listening to notifications"
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, p, func() { p.Works(&outage, what) })
		if ctx.Err() != nil {
			return
		}
		services.Sleep(ctx, max(p.Failed(&outage, what, err), listenPause))
	}
}

func (s *Source) listenOnce(ctx context.Context, p *queues.Processor, listening func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.listen)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.cfg.NotificationChannel}.Sanitize()); err != nil {
		return err
	}
	listening()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		partition, err := strconv.Atoi(n.Payload)
		if err != nil || partition < 0 || partition >= len(s.wake) {
			p.Log().Error("notification names no partition, ignored", "payload", fmt.Sprintf("%.100q", n.Payload), "partitions", len(s.wake))
			continue
		}
		select {
		case s.wake[partition] <- struct{}{}:
		default: // it will look anyway
		}
	}
}

func (s *Source) measure(ctx context.Context, p *queues.Processor) {
	for {
		rows, err := s.db.Query(ctx, "SELECT partition, count(*) FROM (SELECT partition FROM "+s.cfg.OutboxTableName+" LIMIT $1) AS rows GROUP BY partition", lagLimit)
		if err == nil {
			waiting := make([]int64, s.cfg.NumPartitions)
			var partition int
			var n int64
			_, err = pgx.ForEachRow(rows, []any{&partition, &n}, func() error {
				if partition >= 0 && partition < len(waiting) {
					waiting[partition] = n
				}
				return nil
			})
			for i, n := range waiting {
				if err == nil {
					p.Meter().Lag(strconv.Itoa(i), n)
				}
			}
		}
		if !services.Sleep(ctx, lagInterval) {
			return
		}
	}
}

type transaction struct{}

// KeepDeadLetter implements queues.Source, in the transaction that deletes the row.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	id, err := strconv.ParseInt(m.ID, 10, 64)
	if err != nil {
		return err
	}
	tx, ok := ctx.Value(transaction{}).(pgx.Tx)
	if !ok {
		return errors.New("there is no transaction")
	}
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint: a failure does not end the transaction
		_, err := tx.Exec(ctx, "INSERT INTO "+s.deadLetter+" (id, method, payload, reason) VALUES ($1, $2, $3, $4)",
			id, m.Method, m.Payload, reason.Error())
		return err
	})
}
