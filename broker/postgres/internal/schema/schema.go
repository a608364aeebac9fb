// Package schema is the form of the engine's data in PostgreSQL: tables and functions with their migrations and daily
// partitions, the removal of expired rows, rows as publications and publications as arguments of the functions, and the
// hash that spreads channels over shards.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var files embed.FS

// minServer is the oldest PostgreSQL, as server_version_num tells it: 13 has gen_random_uuid.
const minServer = 130000

// Set is a group of tables with a version of their own: streams, maps, or control messages.
type Set struct {
	// Name begins the names of its tables and functions: cf_stream, cf_binary_map, cf_controller.
	Name string
	// Outbox is the partitioned table that nodes read, Notify the channel of notifications.
	Outbox, Notify string
	// Expiring are the tables whose rows end at expires_at. Rows of Meta, one of them, stay while State has rows of
	// their channel.
	Expiring    []string
	Meta, State string

	// Partitions is how many days have a partition of the outbox, as Partition and Drop saw last. DeletedMeta and
	// Deleted count rows of channels and of idempotency keys that DeleteExpired has deleted.
	Partitions           atomic.Int64
	DeletedMeta, Deleted atomic.Uint64

	vars       []string   // of the files: {{x}} and its value
	migrations [][]string // the files that lead to version 1, 2 and so on
}

// Sets of a prefix.
type Sets struct {
	// All has the sets of the other encoding, too.
	Stream, Map, Control *Set
	All                  []*Set
}

// NewSets names the sets of a prefix. The node stores payloads as bytes if binary is set, otherwise as JSONB.
func NewSets(prefix string, binary bool) Sets {
	s := Sets{Control: control(prefix)}
	for _, variant := range []bool{false, true} {
		stream, entries := variantOf(prefix, variant)
		s.All = append(s.All, stream, entries)
		if variant == binary {
			s.Stream, s.Map = stream, entries
		}
	}
	s.All = append(s.All, s.Control)
	return s
}

func variantOf(prefix string, binary bool) (stream, entries *Set) {
	data, wire, show := "jsonb", "text", "r.out_current_data::text"
	if binary {
		prefix, data, wire, show = prefix+"_binary", "bytea", "bytea", "encode(r.out_current_data, 'escape')"
	}
	s, m := prefix+"_stream", prefix+"_map"
	vars := []string{"{{s}}", s, "{{m}}", m, "{{data}}", data, "{{wire}}", wire, "{{show}}", show}
	stream = &Set{
		Name: s, Outbox: s, Notify: s + "_notify", Expiring: []string{s + "_meta", s + "_idempotency"},
		vars:       append([]string{"{{b}}", s, "{{notify}}", s + "_notify"}, vars...),
		migrations: [][]string{{"stream_tables.sql", "lock_functions.sql", "stream_functions.sql"}},
	}
	entries = &Set{
		Name: m, Outbox: m + "_stream", Notify: m + "_stream_notify", Expiring: []string{m + "_meta", m + "_idempotency"},
		Meta: m + "_meta", State: m + "_state",
		vars:       append([]string{"{{b}}", m, "{{notify}}", m + "_stream_notify"}, vars...),
		migrations: [][]string{{"map_tables.sql", "lock_functions.sql"}, {"map_entries.sql", "map_functions.sql", "map_first_nodes.sql"}},
	}
	return stream, entries
}

func control(prefix string) *Set {
	c := prefix + "_controller"
	return &Set{
		Name: c, Outbox: c + "_messages", Notify: c + "_notify",
		vars:       []string{"{{c}}", c},
		migrations: [][]string{{"control.sql"}},
	}
}

// Locks is the table with a row per shard.
func (s *Set) Locks() string { return s.Name + "_shard_lock" }

func (s *Set) versions() string { return s.Name + "_schema_version" }

type Work struct {
	Set *Set
	// Shards is how many the set has. 0 leaves the present shards, or makes 1.
	Shards int
	// Listens makes functions notify.
	Listens bool
}

// Init brings sets to the version that this program knows, in one transaction, and gives them their shards. With skip,
// it only checks the versions.
func Init(ctx context.Context, conn *pgx.Conn, list []Work, lookahead int, skip bool) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var server int
		var schema, recovery = "", false
		const about = "SELECT current_setting('server_version_num')::int, coalesce(quote_ident(current_schema()), ''), pg_is_in_recovery()"
		if err := tx.QueryRow(ctx, about).Scan(&server, &schema, &recovery); err != nil {
			return err
		}
		switch {
		case server < minServer:
			return fmt.Errorf("PostgreSQL %d is too old, at least 13", server/10000)
		case recovery:
			return errors.New("the server is a standby, which cannot be written to")
		case schema == "":
			return errors.New("the search_path of the user has no schema")
		}
		for _, w := range list {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", w.Set.Name); err != nil {
				return err
			}
			if err := w.init(ctx, tx, schema, lookahead, skip); err != nil {
				return fmt.Errorf("%s: %w", w.Set.Name, err)
			}
		}
		return nil
	})
}

func (w *Work) init(ctx context.Context, tx pgx.Tx, schema string, lookahead int, skip bool) error {
	version, err := w.Set.version(ctx, tx)
	newest := len(w.Set.migrations)
	switch {
	case err != nil:
		return err
	case version > newest:
		return fmt.Errorf("the schema has version %d, and this program knows versions up to %d: it is too old", version, newest)
	case skip && version < newest:
		return fmt.Errorf("the schema has version %d instead of %d, and SkipSchemaInit keeps this program from changing it", version, newest)
	case skip:
		return w.checkShards(ctx, tx)
	}
	if err := w.Set.migrate(ctx, tx, schema, version); err != nil {
		return err
	}
	if version < newest {
		if err := w.Set.partition(ctx, tx, lookahead, ""); err != nil {
			return err
		}
	}
	return w.reconcile(ctx, tx)
}

func (s *Set) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var kind string
	err = tx.QueryRow(ctx, "SELECT coalesce((SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)), '')", s.Outbox).Scan(&kind)
	if err != nil {
		return 0, err
	}
	if kind != "" && kind != "p" {
		return 0, fmt.Errorf("table %s is not partitioned: something older than this program made it; rename it, or choose another TablePrefix", s.Outbox)
	}
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", s.versions()).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(schema_version), 0) FROM "+s.versions()).Scan(&version)
	return version, err
}

func (s *Set) migrate(ctx context.Context, tx pgx.Tx, schema string, version int) error {
	if version == len(s.migrations) {
		return nil
	}
	if version == 0 {
		if _, err := tx.Exec(ctx, "CREATE TABLE "+s.versions()+" (id int PRIMARY KEY, schema_version int NOT NULL)"); err != nil {
			return err
		}
	}
	vars := strings.NewReplacer(append([]string{"{{schema}}", schema}, s.vars...)...)
	for i, names := range s.migrations[version:] {
		for _, name := range names {
			text, err := files.ReadFile("sql/" + name)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, vars.Replace(string(text))); err != nil {
				return fmt.Errorf("version %d, %s: %w", version+i+1, name, err)
			}
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO "+s.versions()+" VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET schema_version = excluded.schema_version", len(s.migrations))
	return err
}

func (w *Work) reconcile(ctx context.Context, tx pgx.Tx) error {
	locks := w.Set.Locks()
	if w.Shards == 0 {
		_, err := tx.Exec(ctx, "INSERT INTO "+locks+" (shard_id) SELECT 0 WHERE NOT EXISTS (SELECT FROM "+locks+")")
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO "+locks+" (shard_id) SELECT generate_series(0, $1::int - 1) ON CONFLICT DO NOTHING", w.Shards); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM "+locks+" WHERE shard_id >= $1", w.Shards); err != nil {
		return err
	}
	return w.listen(ctx, tx)
}

func (w *Work) listen(ctx context.Context, tx pgx.Tx) error {
	if !w.Listens {
		return nil
	}
	_, err := tx.Exec(ctx, "UPDATE "+w.Set.Locks()+" SET notify = true WHERE NOT notify")
	return err
}

func (w *Work) checkShards(ctx context.Context, tx pgx.Tx) error {
	if w.Shards == 0 {
		return nil
	}
	n, err := w.Set.Shards(ctx, tx)
	if err == nil && n != w.Shards {
		err = fmt.Errorf("%s has %d shards, the configuration %d", w.Set.Locks(), n, w.Shards)
	}
	if err != nil {
		return err
	}
	return w.listen(ctx, tx)
}

// Shards returns how many the database has.
func (s *Set) Shards(ctx context.Context, db Querier) (n int, err error) {
	err = db.QueryRow(ctx, "SELECT count(*) FROM "+s.Locks()).Scan(&n)
	return n, err
}

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Begin(ctx context.Context) (pgx.Tx, error)
}
