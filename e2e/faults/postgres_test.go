package faults

import (
	"syscall"
	"testing"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// startPostgres starts a server that keeps what it has committed.
func startPostgres(t *testing.T) *postgrestest.Server {
	t.Helper()
	s, err := postgrestest.Start(postgrestest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// postgresSection is the section of a broker on a database of the server.
func postgresSection(s *postgrestest.Server, database string) string {
	return `{"dsn": "` + s.DSN(database) + `", "use_notify": true, "pool_size": 8, "io_timeout": "` + ioTimeout.String() + `"}`
}

// TestPostgres: a PostgreSQL is killed, stopped, and ends its connections.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	database, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	section := postgresSection(server, database)
	s := cluster(t, `"broker": {"enabled": true, "type": "postgres", "postgres": `+section+`}, "map_broker": {"type": "postgres", "postgres": `+section+`}`)
	signal := func(t *testing.T, what syscall.Signal) {
		t.Helper()
		if err := server.Signal(what); err != nil {
			t.Fatal(err)
		}
	}
	restart := func(t *testing.T) {
		t.Helper()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	hold(t, s, clients, fault{
		name: "killed", always: true, failing: true, unfit: "postgres",
		inject: func(t *testing.T) {
			server.Kill()
			allUnfit(s)
			restart(t)
		},
	}, fault{
		name: "killed, back at once", always: true,
		inject: func(t *testing.T) { server.Kill(); restart(t) },
	}, fault{
		name: "stopped until noticed", always: true, failing: true, unfit: "postgres",
		inject: func(t *testing.T) {
			signal(t, syscall.SIGSTOP)
			allUnfit(s)
			signal(t, syscall.SIGCONT)
		},
	}, fault{
		name: "connections ended", always: true,
		inject: func(t *testing.T) {
			for range 5 {
				if err := server.Cut(t.Context(), database); err != nil {
					t.Fatal(err)
				}
				s.Flow()
			}
		},
	}, fault{
		name: "node killed", always: true, failing: true,
		inject: func(t *testing.T) {
			s.Nodes[0].Kill()
			s.Flow()
			s.Restart(0)
		},
	})
}
