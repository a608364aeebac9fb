package postgres

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

//go:embed read.sql
var readFile string

type statements struct {
	publishMany, publishEach, remove string // streams
	changeEach, clear, touch         string // maps
	expired, expireShard             string
	read                             [2]map[string]string // by table and name in read.sql
}

func newStatements(sets *schema.Sets) statements {
	s, m := sets.Stream.Name, sets.Map.Name
	q := statements{
		publishMany: call(s+"_publish_many", 19),
		publishEach: call(s+"_publish_each", 20),
		remove:      call(s+"_remove_history", 1),
		changeEach:  call(m+"_change_each", 27),
		clear:       call(m+"_clear", 2),
		touch:       call(m+"_touch", 2),
		expireShard: call(m+"_expire_shard", 3),
	}
	// Not EXISTS: the planner may read the whole table for it.
	alive := [2]string{"m.expires_at > clock_timestamp()",
		fmt.Sprintf("(m.expires_at IS NULL OR m.expires_at > clock_timestamp() OR (SELECT true FROM %s_state e WHERE e.channel = m.channel LIMIT 1))", m)}
	for table, set := range []*schema.Set{sets.Stream, sets.Map} {
		vars := strings.NewReplacer("{{b}}", set.Name, "{{rows}}", set.Outbox, "{{alive}}", alive[table], "{{columns}}", schema.Columns)
		q.read[table] = make(map[string]string)
		for _, part := range strings.Split(readFile, "-- name: ")[1:] {
			name, text, _ := strings.Cut(part, "\n")
			q.read[table][name] = vars.Replace(text)
		}
	}
	q.expired = q.read[mapTable]["expired"]
	return q
}

func call(name string, args int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SELECT * FROM %s(", name)
	for i := range args {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	b.WriteByte(')')
	return b.String()
}
