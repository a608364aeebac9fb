package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

func itoa(n int) string { return strconv.Itoa(n) }

// launch starts a node that may fail to start. It ends with the test.
func launch(t *testing.T, config string) *rig.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	port := rig.Port(t)
	node, err := rig.Launch(port, []string{"-c", file, "-p", itoa(port)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Kill)
	return node
}

func healthy(addr string) bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + addr + "/health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func publish(t *testing.T, addr, channel string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/api/publish",
		strings.NewReader(`{"channel":"`+channel+`","data":{"n":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", rig.APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}
