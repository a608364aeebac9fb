package postgres_test

import (
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestSubscriptionBegins: a channel gets nothing from before it was subscribed, also if the node has not read that yet;
// and all that is committed afterwards, also by a transaction that began before.
func TestSubscriptionBegins(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{NumShards: 1, PollInterval: time.Hour}, got)
	wait.Until(t, "the first look", func() bool { return b.Health()[0].Delay > 0 }) // then it reads what it has published
	d.exec(`SELECT cf_stream_publish('ch', '"early"')`, `SELECT cf_stream_publish_join('ch', 'c', 'u')`, `SELECT cf_map_publish('map', 'k', '"early"')`)
	tx, err := d.connect().Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `SELECT cf_stream_publish('ch', '"late"')`)
	must(t, err)
	must(t, b.Subscribe(t.Context(), "ch", "map"))
	must(t, tx.Commit(t.Context()))

	_, err = b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, keep)
	must(t, err)
	got.want(t, `ch="late"@2`, "ch=1@3")
	_, err = b.Describe().Maps.Change(t.Context(), "map", &channel.Publication{Key: "k", Data: []byte("1")}, channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute})
	must(t, err)
	got.want(t, "map=1@2")
}
