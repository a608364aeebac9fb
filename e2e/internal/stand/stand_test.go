package stand

import (
	"os"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

func TestMain(m *testing.M) {
	os.Exit(rig.Run(m))
}

const config = `{
	"http_server": {"address": "127.0.0.1"},
	"log": {"level": "warn"},
	"health": {"enabled": true},
	"debug": {"enabled": true},
	"client": {"allow_anonymous_connect_without_token": true},
	"http_api": {"key": "e2e-api-key"},
	"channel": {"namespaces": [{
		"name": "stream", "history_size": 1000, "history_ttl": "300s", "force_recovery": true,
		"allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true
	}]}
}`

// TestStand: a restart in memory loses the streams, and everybody is told.
func TestStand(t *testing.T) {
	s := New(t, Options{
		Nodes: 1, Config: config, Subscribers: 20, SDKs: 2, Channels: 2, Namespace: "stream",
		Every: 10 * time.Millisecond, AnswerLimit: 5 * time.Second,
	})
	span := s.Recovered()
	if span.Received == 0 || span.Answers.OK == 0 {
		t.Fatalf("nothing happened: %+v", span)
	}
	if span.Lost+span.Duplicated+span.Told+span.Refused+span.Reconnects+span.Answers.Failed() > 0 || len(span.Failures) > 0 {
		t.Fatalf("without a fault: %+v", span)
	}
	s.Nodes[0].Kill()
	s.Restart(0)
	span = s.Recovered()
	if span.Told != 22 || span.Reconnects != 22 || span.Lost+span.Duplicated+span.Refused > 0 {
		t.Fatalf("after a restart: %+v", span)
	}
	if span.Answers.Failed() == 0 || span.Silence < 10*time.Millisecond {
		t.Fatalf("the restart went unnoticed: %+v", span)
	}
}
