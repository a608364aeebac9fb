//go:build linux

package operator

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// step happens to the cluster. It returns when it is over; clients are waited for afterwards.
type step struct {
	name, title string
	run         func(*run) error
}

var steps = []step{
	{"calm", "nothing, 30 s", func(r *run) error { r.pause(30); return nil }},
	{"rolling", "rolling restart", rolling},
	{"balancer", "load balancer restarted", balancer},
	{"kill", "`kill -9` of a node, started again after 75 s", kill},
	{"primary", "Redis primary `kill -9`, Sentinel fails over", primary},
	{"failover", "`SENTINEL FAILOVER`", failover},
	{"hang", "`SIGSTOP` of all Redis, 20 s", hang},
	{"down", "all Redis servers shut down, 35 s", down},
	{"memory", "Redis out of memory, 50 s", memory},
	{"readonly", "Redis read-only: `FAILOVER` behind the back of Sentinel", readOnly},
	{"disk", "disk of `log.file` full, 15 s", fullDisk},
	{"reload", "12 configurations by SIGHUP, 5 of them refused", reload},
	{"rotate", "JWT secret rotated, with the previous key for as long as tokens live", rotate},
	{"replace", "JWT secret replaced without the previous key (100 clients apart, tokens of 20 s)", replace},
	{"certificate", "TLS certificate exchanged: wrong pair 75 s, right pair, garbage 15 s, right pair; and in nginx", certificates},
	{"upgrade", "binary upgrade, rolling, mixed for 45 s", upgrade},
	{"suspend", "`SIGSTOP` of a node, 50 s", suspend},
	{"descriptors", "descriptors of a node exhausted, 75 s, 30 new clients", descriptors},
}

func rolling(r *run) error {
	for _, n := range r.nodes {
		r.stop(n)
		r.start(n)
	}
	return nil
}

func balancer(r *run) error {
	r.front.Stop()
	r.balance()
	return nil
}

func kill(r *run) error {
	n := r.nodes[0]
	n.Kill()
	r.pause(20)
	r.examine()
	r.pause(55)
	r.start(n)
	return nil
}

func primary(r *run) error {
	if err := r.agree(); err != nil {
		return err
	}
	old := r.redis.Primary()
	old.Kill()
	r.redis.Await(old)
	r.pause(15)
	r.examine()
	r.pause(5)
	old.Restart(false)
	return r.agree()
}

func failover(r *run) error {
	if err := r.agree(); err != nil {
		return err
	}
	r.redis.Failover()
	r.pause(15)
	r.examine()
	return r.agree()
}

// agree waits until all Sentinels know a primary that is well and has all replicas, and may replace it.
func (r *run) agree() error {
	return r.until("Sentinels that agree", func() bool {
		for _, s := range r.redis.Sentinels {
			state := s.Do("SENTINEL", "MASTER", r.redis.Master)
			if !strings.Contains(state, "\nflags\nmaster\n") || !strings.Contains(s.Do("INFO", "sentinel"), "sentinel_tilt:0\r") {
				return false
			}
		}
		primary := r.redis.Primary()
		if primary == nil || !strings.Contains(primary.Do("INFO", "replication"), fmt.Sprintf("connected_slaves:%d\r", len(r.redis.Servers)-1)) {
			return false
		}
		for _, s := range r.redis.Servers {
			if s != primary && !strings.Contains(s.Do("INFO", "replication"), "master_link_status:up\r") {
				return false
			}
		}
		return true
	})
}

func hang(r *run) error {
	all := append(append([]*redistest.Server(nil), r.redis.Servers...), r.redis.Sentinels...)
	for _, s := range all {
		s.Stop()
	}
	r.pause(10)
	r.examine()
	r.pause(10)
	for _, s := range all {
		s.Continue()
	}
	return r.agree()
}

func down(r *run) error {
	if err := r.agree(); err != nil {
		return err
	}
	primary := r.redis.Primary()
	primary.Shutdown() // first, so that it takes leave of its replicas
	for _, s := range r.redis.Servers {
		if s != primary {
			s.Shutdown()
		}
	}
	r.pause(15)
	r.examine()
	r.pause(20)
	primary.Restart(false)
	for _, s := range r.redis.Servers {
		if s != primary {
			s.Restart(false)
		}
	}
	return r.agree()
}

func memory(r *run) error {
	if err := r.agree(); err != nil {
		return err
	}
	primary := r.redis.Primary()
	primary.Do("CONFIG", "SET", "maxmemory", "1mb")
	r.pause(20)
	r.examine()
	r.pause(30)
	primary.Do("CONFIG", "SET", "maxmemory", "0")
	return nil
}

// readOnly makes the primary a replica behind the Sentinels, who take half a minute to put that right.
func readOnly(r *run) error {
	if err := r.agree(); err != nil {
		return err
	}
	r.redis.Primary().Do("FAILOVER")
	if err := r.fleet.failing(); err != nil {
		return err
	}
	r.pause(10)
	r.examine()
	if err := r.fleet.acknowledged(1); err != nil {
		return err
	}
	return r.agree()
}

func fullDisk(r *run) error {
	n := r.nodes[len(r.nodes)-1]
	if !r.disk {
		r.remark("left out: only root can mount a small file system")
		return nil
	}
	// The rest of the last page of the file is soon full of these lines.
	r.config["log"] = object{"access": true}
	if err := r.reconfigured(); err != nil {
		return err
	}
	filler, err := os.Create(filepath.Join(n.logDir, "filler"))
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = filler.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, filler.Close())
	}
	if err := filler.Close(); err != nil {
		return err
	}
	r.pause(10)
	r.examine()
	r.pause(5)
	if err := os.Remove(filler.Name()); err != nil {
		return err
	}
	said := strings.TrimSpace(n.Log())
	r.remark(fmt.Sprintf("stderr of %s: `%s`", n.name, said[strings.LastIndexByte(said, '\n')+1:]))
	delete(r.config, "log")
	return r.reconfigured()
}

// reconfigured returns when each node has logged the outcome.
func (r *run) reconfigured() error {
	r.write()
	return r.reread()
}

func (r *run) reread() error {
	before := make(map[*node]int)
	for _, n := range r.nodes {
		before[n] = n.reloads()
		n.Reload()
	}
	for _, n := range r.nodes {
		if err := r.until("the reload of "+n.name, func() bool { return n.reloads() > before[n] }); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) reloads() int {
	text, err := os.ReadFile(n.log())
	if err != nil {
		return 0
	}
	count := 0
	for _, message := range []string{`"message":"configuration reloaded`, `"message":"configuration is not reloaded`} {
		count += strings.Count(string(text), message)
	}
	return count
}

// reload gives the nodes valid configurations and others, in the end the one of the beginning.
func reload(r *run) error {
	whole, err := json.Marshal(r.config)
	if err != nil {
		return err
	}
	accepted, refused := 0, 0
	for i, change := range []func(c object) []byte{
		func(c object) []byte { c["log"] = object{"limit_window": "11s"}; return nil },
		func(object) []byte { return []byte(`{"client": {`) },
		func(c object) []byte { c["log"] = object{"limit_burst": 50}; return nil },
		func(c object) []byte { section(c, "client")["queue_max_size"] = "much"; return nil },
		func(c object) []byte { section(c, "client")["connection_limit"] = 100000; return nil },
		func(c object) []byte { section(c, "channel", "without_namespace")["history_ttl"] = "soon"; return nil },
		func(c object) []byte { section(c, "channel", "without_namespace")["presence"] = true; return nil },
		func(c object) []byte { section(c, "client", "token")["ecdsa_public_key"] = "no key"; return nil },
		func(c object) []byte {
			list := section(c, "channel")
			list["namespaces"] = append(list["namespaces"].([]any), object{"name": "more", "allow_subscribe_for_client": true})
			return nil
		},
		func(c object) []byte {
			list := section(c, "channel")
			list["namespaces"] = append(list["namespaces"].([]any), object{"name": "news"})
			return nil
		},
		func(c object) []byte { c["log"] = object{"level": "loud"}; return nil },
		func(object) []byte { return nil },
	} {
		var c object
		if err := json.Unmarshal(whole, &c); err != nil {
			return err
		}
		text := change(c)
		if text == nil {
			if text, err = json.Marshal(c); err != nil {
				return err
			}
		}
		if err := os.WriteFile(r.file(), text, 0o600); err != nil {
			return err
		}
		if err := r.reread(); err != nil {
			return fmt.Errorf("configuration %d: %w", i+1, err)
		}
		if ok, err := r.taken(); err != nil {
			return err
		} else if ok {
			accepted++
		} else {
			refused++
		}
		r.pause(3)
	}
	r.remark(fmt.Sprintf("%d taken, %d refused", accepted, refused))
	if refused != 5 {
		err = fmt.Errorf("%d configurations were refused, want 5", refused)
	}
	return errors.Join(err, r.reconfigured())
}

// taken looks at the metric of the first node. Requests at a time share an answer, which may be older than the reload,
// if another scrape began before it. The second request gets a newer one.
func (r *run) taken() (bool, error) {
	if _, _, err := r.get(scraping, r.nodes[0], "/metrics"); err != nil {
		return false, err
	}
	_, body, err := r.get(scraping, r.nodes[0], "/metrics")
	return strings.Contains(string(body), "\ngyro_config_last_reload_successful 1\n"), err
}

func section(c object, path ...string) object {
	for _, name := range path {
		if c[name] == nil {
			c[name] = object{}
		}
		c = c[name].(object)
	}
	return c
}

// rotate changes the secret of tokens as docs/tokens.md says.
func rotate(r *run) error {
	token := section(r.config, "client", "token")
	old, next := r.keys.secret(), "another-secret-of-tokens-of-clients"
	token["hmac_secret_key"], token["hmac_previous_secret_key"] = next, old
	if err := r.reconfigured(); err != nil {
		return err
	}
	r.pause(20) // the backend goes on with the old one for a while
	r.examine()
	r.keys.use(next, false)
	wire.Sleep(r.ctx, tokenLife+10*time.Second)
	delete(token, "hmac_previous_secret_key")
	return r.reconfigured()
}

// replace changes the secret while clients apart have tokens by the old one, and back after 25 s. All others have tokens
// by ECDSA meanwhile.
func replace(r *run) error {
	token := section(r.config, "client", "token")
	old := r.keys.secret()
	r.keys.use(old, true)
	defer r.keys.use(old, false)
	g := r.invite(100, old, 20*time.Second)
	defer g.close()
	if err := r.until("100 clients", func() bool { came, _, _ := g.counts(); return came == len(g.all) }); err != nil {
		return err
	}
	r.pause(5) // until tokens that were signed before are used
	token["hmac_secret_key"] = "a-secret-that-nobody-signs-tokens-with"
	err := r.reconfigured()
	r.pause(10)
	r.examine()
	r.pause(15)
	token["hmac_secret_key"] = old
	err = errors.Join(err, r.reconfigured())
	_, _, ended := g.counts()
	r.remark(fmt.Sprintf("%d of %d thrown out for good, by code: %s", g.thrown(), len(g.all), ended))
	return err
}

// certificates exchanges the certificate of a listener of the nodes, and of nginx.
func certificates(r *run) error {
	dir := filepath.Join(r.dir, "grpc")
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	r.certify("grpc")
	right, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	put := func(file string, data []byte, seconds int) {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), data, 0o600), r.reread())
		r.pause(seconds)
	}
	put("key.pem", key, 60)
	r.examine()
	r.pause(15)
	put("key.pem", right, 10)
	put("key.pem", []byte("garbage"), 15)
	put("key.pem", right, 0)
	before, first := r.shown()
	r.certify("front")
	r.front.Signal(syscall.SIGHUP)
	after := before
	second := r.until("the other certificate of nginx", func() bool {
		var e error
		after, e = r.shown()
		return e == nil && after != before
	})
	return errors.Join(err, first, second)
}

func (r *run) shown() (string, error) {
	conn, err := tls.Dial("tcp", r.public, &tls.Config{InsecureSkipVerify: true}) // no authority has signed it
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return string(conn.ConnectionState().PeerCertificates[0].Raw), nil
}

func (r *run) connections(n *node) (count int) {
	_, body, _ := r.get(scraping, n, "/metrics") // a node that does not answer has none
	_, text, _ := strings.Cut(string(body), "\ngyro_node_num_clients ")
	_, _ = fmt.Sscan(text, &count)
	return count
}

const version = "99.0.0"

// build builds the other version, without which there is no upgrade.
func (s *stand) build() error {
	s.other = filepath.Join(s.dir, "gyro-"+version)
	out, err := exec.Command("go", "build", "-ldflags", "-X main.version="+version, "-o", s.other, "github.com/gyrohq/gyro/server/cmd/gyro").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return nil
}

func upgrade(r *run) error {
	for i, n := range r.nodes {
		r.stop(n)
		n.program = r.other
		r.start(n)
		if i == 0 {
			r.pause(30)
			r.examine()
			r.pause(15)
		}
	}
	_, body, err := r.get(scraping, r.nodes[0], "/metrics")
	if !strings.Contains(string(body), version) {
		err = errors.Join(err, fmt.Errorf("the metrics of %s do not have the version %s", r.nodes[0].name, version))
	}
	return err
}

func suspend(r *run) error {
	n := r.nodes[1]
	n.Pause()
	r.pause(40)
	r.examine()
	r.pause(10)
	n.Resume()
	return nil
}

// descriptors leaves two descriptors to the node with the fewest clients, to which nginx sends new ones.
func descriptors(r *run) error {
	n := slices.MinFunc(r.nodes, func(a, b *node) int { return r.connections(a) - r.connections(b) })
	limit := func(n int, pid int) error {
		out, err := exec.Command("prlimit", "--pid", strconv.Itoa(pid), "--nofile="+strconv.Itoa(n)+":").CombinedOutput()
		if err != nil {
			return fmt.Errorf("prlimit: %w: %s", err, out)
		}
		return nil
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.PID()))
	if err != nil {
		return err
	}
	if err := limit(len(open)+2, n.PID()); err != nil {
		return err
	}
	g := r.invite(30, r.keys.secret(), tokenLife)
	defer g.close()
	r.pause(60)
	r.examine()
	r.pause(15)
	came, last, _ := g.counts()
	r.remark(fmt.Sprintf("%d of %d new clients came in, the last one after %.1f s", came, len(g.all), last.Seconds()))
	return limit(int(before.Max), n.PID())
}
