package install

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/porttest"
)

// accounts takes examples/accounts to a module of its own, as a reader would, runs two nodes with a Redis, and has
// browsers use them.
func accounts(t *testing.T, u *user) {
	dir := filepath.Join(u.dir, "accounts")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(repository, "examples/accounts"))); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"go.mod", "go.sum", "main_test.go"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	program := u.build(dir, library, library+"/broker/redis")
	redis, err := rig.StartRedis(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Kill)
	u.writeAccounts(program, filepath.Join(dir, "accounts.json"))
	scripts, err := filepath.Abs(filepath.Join(repository, "e2e/js"))
	if err != nil {
		t.Fatal(err)
	}
	visit := []string{"node", filepath.Join(scripts, "accounts.js")}
	for range 2 {
		visit = append(visit, u.startAccounts(dir, program, "-redis", redis.Addr(), "-sdk", scripts+"/node_modules/centrifuge/dist/centrifuge.js"))
	}
	u.run(scripts, visit...)
}

func (u *user) writeAccounts(program, file string) {
	u.t.Helper()
	type account struct {
		Password string
		Rooms    []string
	}
	all := map[string]account{
		"ann": {"correct horse", []string{"team", "lobby"}},
		"bob": {"battery staple", []string{"team"}},
		"eve": {"staple horse", []string{"lobby"}},
	}
	for name, a := range all {
		cmd := exec.CommandContext(u.ctx, program, "-hash")
		cmd.Stdin = strings.NewReader(a.Password + "\n")
		hash, err := cmd.Output()
		if err != nil {
			u.t.Fatal(err)
		}
		a.Password = strings.TrimSpace(string(hash))
		all[name] = a
	}
	text, err := json.Marshal(all)
	if err != nil {
		u.t.Fatal(err)
	}
	u.write(file, string(text))
}

func (u *user) startAccounts(dir, program string, args ...string) string {
	u.t.Helper()
	address := porttest.Address(u.t)
	ctx, stop := context.WithCancel(u.ctx)
	cmd := exec.CommandContext(ctx, program, append(args, "-address", address)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SESSION_KEY="+strings.Repeat("k", 32))
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the output tells
	}()
	u.t.Cleanup(func() {
		stop()
		<-exited
		if code := cmd.ProcessState.ExitCode(); code != 0 || u.t.Failed() {
			u.t.Errorf("the node ends with %d:\n%s", code, &output)
		}
	})
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return address
		}
		select {
		case <-exited:
			u.t.Fatal("the node does not start")
		case <-u.ctx.Done():
			u.t.Fatal("the node does not listen")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
