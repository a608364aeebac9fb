package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

// TestHash: HashText is what the server computes, for texts of all lengths.
func TestHash(t *testing.T) {
	var texts []string
	for n := range 64 {
		texts = append(texts, strings.Repeat("ä", n), fmt.Sprintf("%0*d", n, n), strings.Repeat("\x01\x7f~", n))
	}
	rows, err := newDatabase(t).connect().Query(t.Context(), "SELECT t, hashtext(t), (abs(hashtext(t)::bigint) % 7)::int FROM unnest($1::text[]) t", texts)
	must(t, err)
	var text string
	var hash int32
	var shard int
	_, err = pgx.ForEachRow(rows, []any{&text, &hash, &shard}, func() error {
		if got := schema.HashText(text); got != uint32(hash) || schema.ShardOf(text, 7) != shard {
			t.Errorf("%q: %d, want %d", text, got, uint32(hash))
		}
		return nil
	})
	must(t, err)
}
