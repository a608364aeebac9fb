package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/e2e/internal/rig"
)

func postgresEngine(dsn string) string {
	section := `{"dsn": "` + dsn + `", "use_notify": true, "pool_size": 8, "io_timeout": "` + ioTimeout.String() + `"}`
	return `"broker": {"enabled": true, "type": "postgres", "postgres": ` + section + `}, "map_broker": {"type": "postgres", "postgres": ` + section + `}`
}

// TestPostgres: a PostgreSQL is killed, stopped, and ends its connections.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t, postgrestest.Options{})
	database, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := cluster(t, postgresEngine(server.DSN(database)))
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
	expose(t, s, clients, fault{
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

// TestPostgresNetwork: the network to PostgreSQL goes silent, breaks connections, or discards bytes.
func TestPostgresNetwork(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t, postgrestest.Options{})
	proxy, err := rig.NewProxy(fmt.Sprint("127.0.0.1:", server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := cluster(t, postgresEngine("postgres://gyro@"+proxy.Addr()+"/postgres?sslmode=disable"))
	expose(t, s, clients, fault{
		name: "silent 1s", always: true, quiet: true,
		inject: func(t *testing.T) {
			proxy.Freeze()
			time.Sleep(time.Second)
			proxy.Resume()
		},
	}, fault{
		name: "reset 1s", always: true, failing: true,
		inject: func(t *testing.T) {
			proxy.Down()
			time.Sleep(time.Second)
			proxy.Up()
		},
	}, fault{
		name: "half-open", always: true, failing: true,
		inject: func(t *testing.T) {
			proxy.Mute()
			s.Flow() // over other connections, when the first statement has got no answer in time
		},
	})
}

// TestPostgresFailover: the primary is killed, and its standby takes over. A synchronous standby has all that was
// acknowledged; of another one's losses subscribers have to be told.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	for name, synchronous := range map[string]bool{"synchronous": true, "asynchronous": false} {
		if !synchronous && *which != "all" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := postgrestest.New(t, postgrestest.Options{})
			standby, err := primary.Standby()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(standby.Stop)
			if synchronous {
				for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
					if err := primary.Do(t.Context(), "postgres", sql); err != nil {
						t.Fatal(err)
					}
				}
			}
			dsn := fmt.Sprintf("postgres://gyro@127.0.0.1:%d,127.0.0.1:%d/postgres?target_session_attrs=read-write&sslmode=disable", primary.Port(), standby.Port())
			s := cluster(t, postgresEngine(dsn))
			expose(t, s, clients, fault{
				name: "standby takes over", always: true, failing: true, mayMiss: !synchronous, unfit: "postgres",
				inject: func(t *testing.T) {
					primary.Kill()
					allUnfit(s)
					if err := standby.Promote(t.Context()); err != nil {
						t.Fatal(err)
					}
				},
			})
		})
	}
}
