package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// clientServer runs a server for the commands that talk to one; its configuration is in the returned folder.
func clientServer(t *testing.T) (dir, port string) {
	t.Helper()
	dir, port = t.TempDir(), freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"http_api":{"key":"secret-key"},
		"client":{"token":{"hmac_secret_key":"secret-of-tokens"}},
		"channel":{"without_namespace":{"presence":true,"history_size":10,"history_ttl":"1h","force_recovery":true,"allow_publish_for_client":true}}}`)
	launch(t, dir, nil, "gyro is running")
	return dir, port
}

// following is a command that runs until it has printed enough.
type following struct {
	cmd      *exec.Cmd
	out, err *bufio.Reader
}

func follow(t *testing.T, dir string, args ...string) *following {
	t.Helper()
	f := &following{cmd: command(t, dir, nil, args...)}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	messages, err := f.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.out, f.err = bufio.NewReader(out), bufio.NewReader(messages)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.cmd.Process.Kill() }) // it may have ended
	return f
}

// line returns the next line of a stream.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("%q %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

var epoch = regexp.MustCompile(`"epoch":"[^"]*"|epoch \S+`)

// stable replaces what differs from run to run.
func stable(text string) string { return epoch.ReplaceAllString(text, "EPOCH") }

func TestSubAndPub(t *testing.T) {
	t.Parallel()
	dir, port := clientServer(t)
	sub := follow(t, dir, "sub", "-c", "config.json", "--user", "ann", "-n", "4", "--json", "news")
	for _, want := range []string{`{"type":"connected"}`, `{"type":"subscribed","channel":"news",EPOCH}`} {
		if got := stable(line(t, sub.out)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := stable(line(t, sub.err)); got != "subscribed to news at offset 0, EPOCH" {
		t.Error(got)
	}
	if got := stable(succeed(t, dir, "pub", "-c", "config.json", "--tag", "a=b", "--json", "news", `{"n": 1}`)); got != `{"channel":"news","offset":1,EPOCH}`+"\n" {
		t.Error(got)
	}
	if got := succeed(t, dir, "pub", "-c", "config.json", "--text", "news", "two"); got != "" {
		t.Error(got)
	}
	lines := command(t, dir, []string{"GYROCLI_CONFIG=config.json", "GYROCLI_USER=bob"}, "pub", "--via", "client", "news", "-")
	lines.Stdin = strings.NewReader("3\n\n[4]\n")
	if out, err := lines.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s %v", out, err)
	}
	for _, want := range []string{
		`{"type":"publication","channel":"news","data":{"n":1},"offset":1,"tags":{"a":"b"}}`,
		`{"type":"publication","channel":"news","data":"two","offset":2}`,
	} {
		if got := line(t, sub.out); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for i, want := range []string{"3", "[4]"} {
		var got struct {
			Data   json.RawMessage
			Offset int
			Info   struct{ User string }
		}
		if err := json.Unmarshal([]byte(line(t, sub.out)), &got); err != nil || string(got.Data) != want || got.Offset != 3+i || got.Info.User != "bob" {
			t.Errorf("%+v %v", got, err)
		}
	}
	if err := sub.cmd.Wait(); err != nil {
		t.Error(err)
	}
	// The history comes first, by either way.
	for _, args := range [][]string{
		{"tail", "-c", "config.json", "-n", "3", "--count", "3", "news"},
		{"tail", "--via", "api", "--api", "http://127.0.0.1:" + port, "--api-key", "secret-key", "-n", "3", "--count", "3", "news"},
	} {
		if got := succeed(t, dir, args...); got != "\"two\"\n3\n[4]\n" {
			t.Errorf("%q: %s", args, got)
		}
	}
	if got := succeed(t, dir, "tail", "-c", "config.json", "--count", "1", "-n", "1", "news", "quiet"); got != "news\t[4]\n" {
		t.Error(got)
	}
	env := []string{"GYROCLI_URL=http://127.0.0.1:" + port, "GYROCLI_TOKEN_HMAC_SECRET=secret-of-tokens"}
	out, code := run(t, dir, env, "sub", "--since", "3:"+epochOf(t, dir), "--count", "1", "news")
	if out != "[4]\n" || code != 0 {
		t.Errorf("%s %d", out, code)
	}
}

// epochOf returns the epoch of the channel news.
func epochOf(t *testing.T, dir string) string {
	t.Helper()
	var answer struct{ Epoch string }
	if err := json.Unmarshal([]byte(succeed(t, dir, "pub", "-c", "config.json", "--skip-history", "--json", "--idempotency-key", "k", "news", "0")), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Epoch != "" {
		return answer.Epoch
	}
	sub := follow(t, dir, "sub", "-c", "config.json", "--json", "news")
	line(t, sub.out)
	if err := json.Unmarshal([]byte(line(t, sub.out)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Epoch
}

func TestCommandsOfPeople(t *testing.T) {
	t.Parallel()
	dir, port := clientServer(t)
	sub := follow(t, dir, "sub", "-c", "config.json", "--user", "ann", "news", "other")
	line(t, sub.err)
	line(t, sub.err)
	if got := succeed(t, dir, "presence", "-c", "config.json", "news"); !regexp.MustCompile(`^CHANNEL  USER  CLIENT +CONN_INFO  CHAN_INFO\nnews     ann   \S+ *\n$`).MatchString(got) {
		t.Error(got)
	}
	if got := succeed(t, dir, "presence", "-c", "config.json", "--stats", "--json", "news", "nobody"); got !=
		`{"channel":"news","num_clients":1,"num_users":1}`+"\n"+`{"channel":"nobody","num_clients":0,"num_users":0}`+"\n" {
		t.Error(got)
	}
	var node struct {
		Name       string
		NumClients int `json:"num_clients"`
	}
	if err := json.Unmarshal([]byte(succeed(t, dir, "info", "-c", "config.json", "--json")), &node); err != nil || node.NumClients != 1 || !strings.HasSuffix(node.Name, "_"+port) {
		t.Errorf("%+v %v", node, err)
	}
	if got := succeed(t, dir, "rpc", "-c", "config.json", "--via", "api", "reload"); got != `{"applied":[],"restart":[]}`+"\n" {
		t.Error(got)
	}
	// Completion asks the server.
	got, _ := run(t, dir, nil, "__complete", "sub", "-c", "config.json", "")
	if got != "news\nother\n:4\n" {
		t.Errorf("%q", got)
	}
	// Messages of failures are on stderr, and tell no secret.
	for want, args := range map[string][]string{
		`--user is missing`:                  {"explain"},
		`the payload is not JSON`:            {"pub", "-c", "config.json", "news", "hello"},
		`since: "x" is not OFFSET:EPOCH`:     {"sub", "-c", "config.json", "--since", "x", "news"},
		`channel "news" is given twice`:      {"tail", "-c", "config.json", "news", "news"},
		`via: "x" is neither client nor api`: {"pub", "--via", "x", "news", "1"},
		`DATA is needed`:                     {"pub", "-c", "config.json", "news"},
		`which --key?`:                       {"pub", "-c", "config.json", "--remove", "news"},
		`url: "x" is no address`:             {"sub", "--url", "x", "news"},
	} {
		misuse(t, dir, want, args...)
	}
	for want, args := range map[string][]string{
		`(--api-key) is missing or wrong`:             {"explain", "--user", "42", "-c", "config.json", "--api-key", "secret-nonsense"},
		`108: not available`:                          {"rpc", "-c", "config.json", "nothing"},
		`the API key (--api-key) is missing or wrong`: {"info", "--api", "http://127.0.0.1:" + port, "--api-key", "secret-nonsense"},
		`error 102: unknown channel`:                  {"pub", "-c", "config.json", "no:thing", "1"},
		`disconnect 3500: invalid token`:              {"sub", "--url", "ws://127.0.0.1:" + port, "--token", "secret-nonsense", "news"},
		`connection refused`:                          {"sub", "--url", "ws://127.0.0.1:1", "news"},
	} {
		fail(t, dir, want, args...)
	}
	failing := command(t, dir, nil, "pub", "-c", "config.json", "news", "-")
	failing.Stdin = strings.NewReader("1\n2\nhello\n")
	ends(t, failing, 1, "line 3: the payload is not JSON")
	// A signal ends the command with the code of shells.
	if err := sub.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, sub.err)
	_ = sub.cmd.Wait() // the code tells more
	if code := sub.cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

// TestBrokenPipe: a command whose reader has gone ends with the next line.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	dir, _ := clientServer(t)
	sub := command(t, dir, nil, "sub", "-c", "config.json", "news")
	out, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	messages, err := sub.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	line(t, bufio.NewReader(messages))
	out.Close()
	succeed(t, dir, "pub", "-c", "config.json", "news", "1")
	_ = sub.Wait() // it is killed
	if s, ok := sub.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGPIPE {
		t.Errorf("%v", sub.ProcessState)
	}
}
