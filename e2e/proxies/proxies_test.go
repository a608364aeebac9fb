// Package proxies tests proxies with centrifuge-go: each backend of examples/proxies is asked about every event.
// ../js/proxies.test.js does the same with npm centrifuge.
package proxies

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const patience = wait.Limit

var (
	example = absolute("../../examples/proxies")
	streams = absolute("../../examples/streams")
	schema  = absolute("../../server/internal/proxy/message")
	modules = absolute("../js/node_modules")
	python  = absolute("../../.cache/venv/bin/python3") // the step backends of make ci installs it
)

func absolute(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		panic(err) // there is no working directory
	}
	return name
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The rows wait more than they compute. The flag exists.
	_ = flag.Set("test.parallel", "6")
	os.Exit(rig.Run(m))
}

type backend struct {
	name, config string
	command      func(port string) []string
	at           func(port, event string) string // the endpoint of a proxy
	asked        func(event string) string       // what the program prints when it is asked
	proxies      map[string]string               // the event of each proxy, by the variable of its section
}

var eventProxies = map[string]string{
	"CLIENT_PROXY_CONNECT": "connect", "CLIENT_PROXY_REFRESH": "refresh", "CHANNEL_PROXY_SUBSCRIBE": "subscribe",
	"CHANNEL_PROXY_SUB_REFRESH": "sub_refresh", "CHANNEL_PROXY_PUBLISH": "publish", "RPC_PROXY": "rpc",
	"CHANNEL_PROXY_CACHE_EMPTY": "cache_empty",
}

var backends = []backend{
	overHTTP("HTTP,Flask", func(port string) []string { return []string{python, "-m", "flask", "run", "--port", port} }),
	overHTTP("HTTP,Express", func(string) []string { return []string{"node", "server.mjs"} }),
	{
		name: "gRPC,Python", config: "config-grpc.json",
		command: func(string) []string { return []string{python, "grpc_server.py"} },
		at:      func(port, _ string) string { return "grpc://localhost:" + port },
		asked: func(event string) string {
			return map[string]string{"refresh": "/Refresh", "sub_refresh": "/SubRefresh"}[event]
		},
		proxies: eventProxies,
	},
}

func overHTTP(name string, command func(port string) []string) backend {
	return backend{
		name: name, config: "config.json", command: command,
		at:    func(port, event string) string { return "http://localhost:" + port + "/" + event },
		asked: func(event string) string { return "POST /" + event }, proxies: eventProxies,
	}
}

type setup struct {
	*testing.T
	backend
	program  *rig.Program
	server   *rig.Server
	protobuf bool
}

// events in an order that one backend can answer: refresh ends with a ban of ann.
var events = []struct {
	name string
	test func(setup)
}{
	{"connect", connect}, {"subscribe", subscribe}, {"publish", publish}, {"rpc", rpc}, {"cache_empty", cacheEmpty},
	{"sub_refresh", subRefresh}, {"refresh", refresh},
}

func TestEvents(t *testing.T) {
	folder := install(t, example)
	for _, b := range backends {
		for _, encoding := range []string{"JSON", "Protobuf"} {
			t.Run(b.name+","+encoding, func(t *testing.T) {
				t.Parallel()
				s := setup{T: t, backend: b, protobuf: encoding == "Protobuf"}
				s.start(folder)
				for _, e := range events {
					t.Run(e.name, func(t *testing.T) {
						in := s
						in.T = t
						e.test(in)
					})
				}
			})
		}
	}
}

// install does what the README.md of an example says.
func install(t *testing.T, example string) (folder string) {
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	protoc := exec.Command(python, "-m", "grpc_tools.protoc", "-I", schema,
		"--python_out=.", "--grpc_python_out=.", "proxy.proto")
	protoc.Dir = folder
	if out, err := protoc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// start runs the backend, and Gyro with all its proxies at the backend. Sessions last two seconds.
func (s *setup) start(folder string) {
	s.Helper()
	port, gyro := strconv.Itoa(rig.Port(s)), rig.Port(s)
	command := s.command(port)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "PORT="+port, "SESSION_SECONDS=2",
		"GYRO_API=http://localhost:"+strconv.Itoa(gyro)+"/api")
	var err error
	if s.program, err = rig.StartProgram(cmd, "Running on"); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.program.Kill)
	env := []string{"GYRO_CLIENT_PRESENCE_UPDATE_INTERVAL=1s", "GYRO_CLIENT_EXPIRED_SUB_CLOSE_DELAY=1s"}
	for key, event := range s.proxies {
		env = append(env, "GYRO_"+key+"_ENDPOINT="+s.at(port, event))
	}
	args := []string{"-c", filepath.Join(folder, s.config), "-a", "127.0.0.1", "-p", strconv.Itoa(gyro)}
	if s.server, err = rig.StartServer(gyro, args, env); err != nil {
		s.Fatal(err)
	}
	t := s.T
	s.Cleanup(func() {
		s.server.Stop()
		if t.Failed() {
			t.Log(s.server.Log())
		}
	})
}

type client struct {
	*centrifuge.Client
	connecting   chan centrifuge.ConnectingEvent
	connected    chan centrifuge.ConnectedEvent
	disconnected chan centrifuge.DisconnectedEvent
}

// many events may wait for a test, so that the SDK never has to.
const many = 1 << 10

func (s setup) connect(user string) client {
	s.Helper()
	cfg := centrifuge.Config{
		Header:            http.Header{"Authorization": {"Bearer " + user + "-secret"}},
		MinReconnectDelay: 5 * time.Millisecond, MaxReconnectDelay: 50 * time.Millisecond,
		HandshakeTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	create := centrifuge.NewJsonClient
	if s.protobuf {
		create = centrifuge.NewProtobufClient
	}
	c := client{
		create(s.server.WS(), cfg), make(chan centrifuge.ConnectingEvent, many),
		make(chan centrifuge.ConnectedEvent, many), make(chan centrifuge.DisconnectedEvent, many),
	}
	c.OnConnecting(func(e centrifuge.ConnectingEvent) { c.connecting <- e })
	c.OnConnected(func(e centrifuge.ConnectedEvent) { c.connected <- e })
	c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { c.disconnected <- e })
	s.Cleanup(c.Close)
	s.must(c.Connect())
	take(s, "connecting", c.connecting)
	return c
}

type subscription struct {
	*centrifuge.Subscription
	subscribing  chan centrifuge.SubscribingEvent
	subscribed   chan centrifuge.SubscribedEvent
	unsubscribed chan centrifuge.UnsubscribedEvent
	publications chan centrifuge.PublicationEvent
}

func (s setup) subscribe(c client, channel string) subscription {
	s.Helper()
	inner, err := c.NewSubscription(channel)
	s.must(err)
	sub := subscription{
		inner, make(chan centrifuge.SubscribingEvent, many), make(chan centrifuge.SubscribedEvent, many),
		make(chan centrifuge.UnsubscribedEvent, many), make(chan centrifuge.PublicationEvent, many),
	}
	sub.OnSubscribing(func(e centrifuge.SubscribingEvent) { sub.subscribing <- e })
	sub.OnSubscribed(func(e centrifuge.SubscribedEvent) { sub.subscribed <- e })
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { sub.unsubscribed <- e })
	sub.OnPublication(func(e centrifuge.PublicationEvent) { sub.publications <- e })
	s.must(sub.Subscribe())
	take(s, "subscribing", sub.subscribing)
	return sub
}

// enter subscribes ann to chat:lunch, and waits until it is done.
func (s setup) enter() subscription {
	s.Helper()
	lunch := s.subscribe(s.connect("ann"), "chat:lunch")
	take(s, "subscribed", lunch.subscribed)
	return lunch
}

// again waits until the backend was asked so many times more.
func (s setup) again(event string, times int) {
	s.Helper()
	text := s.asked(event)
	times += s.program.Printed(text)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(s.program.Await(ctx, text, times))
}

func connect(s setup) {
	mallory := s.connect("mallory")
	s.equal("mallory", take(s, "disconnected", mallory.disconnected), centrifuge.DisconnectedEvent{Code: 4501, Reason: "log in first"})
	ann := s.connect("ann")
	s.json("ann", take(s, "connected", ann.connected).Data, `{"motd":"Welcome"}`)
}

func subscribe(s setup) {
	ann := s.connect("ann")
	staff := s.subscribe(ann, "chat:staff")
	s.equal("chat:staff", take(s, "unsubscribed", staff.unsubscribed), centrifuge.UnsubscribedEvent{Code: 403, Reason: "staff only"})
	lunch := s.subscribe(ann, "chat:lunch")
	s.json("chat:lunch", take(s, "subscribed", lunch.subscribed).Data, `{"topic":"Lunch"}`)
}

func publish(s setup) {
	lunch := s.enter()
	_, err := lunch.Publish(s.Context(), []byte(`{"text": " Pizza? "}`))
	s.must(err)
	e := take(s, "publication", lunch.publications)
	s.json("data", e.Data, `{"text":"Pizza?"}`)
	s.json("info", e.Info.ConnInfo, `{"name":"Ann"}`)
	s.equal("user", e.Info.User, "ann")
	_, err = lunch.Publish(s.Context(), []byte(`{"text": " "}`))
	s.refused(err, 400, "say something")
}

func rpc(s setup) {
	ann := s.connect("ann")
	answer, err := ann.RPC(s.Context(), "whoami", []byte("null"))
	s.must(err)
	s.json("answer", answer.Data, `{"user":"ann"}`)
	_, err = ann.RPC(s.Context(), "ban", []byte(`{"user": "bob"}`))
	s.refused(err, 404, "no such method")
}

func cacheEmpty(s setup) {
	ann := s.connect("ann")
	menu := s.subscribe(ann, "menu:today")
	s.equal("recovered", take(s, "subscribed", menu.subscribed).Recovered, true)
	s.json("menu:today", take(s, "publication", menu.publications).Data, `{"soup":"Tomato"}`)
	never := s.subscribe(ann, "menu:never")
	s.equal("recovered", take(s, "subscribed", never.subscribed).Recovered, false)
}

// subRefresh: the backend is asked again because its first answer has prolonged the subscription.
func subRefresh(s setup) {
	lunch := s.enter()
	s.again("sub_refresh", 2)
	none(s, lunch.subscribing)
}

func refresh(s setup) {
	ann, bob := s.connect("ann"), s.connect("bob")
	for _, c := range []client{ann, bob} {
		take(s, "connected", c.connected)
	}
	s.again("refresh", 4)
	none(s, ann.connecting)
	none(s, bob.connecting)
	// The backend ends ann's connection. The SDK comes back, and is refused.
	_, err := bob.RPC(s.Context(), "ban", []byte(`{"user": "ann"}`))
	s.must(err)
	s.equal("connecting", take(s, "connecting", ann.connecting).Code, uint32(3005))
	s.equal("disconnected", take(s, "disconnected", ann.disconnected).Code, uint32(4501))
}

func take[T any](s setup, what string, events chan T) T {
	s.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		s.Fatalf("no event within %v: %s", patience, what)
		panic("unreachable")
	}
}

func none[T any](s setup, events chan T) {
	s.Helper()
	select {
	case e := <-events:
		s.Fatalf("unexpected event: %+v", e)
	default:
	}
}

func (s setup) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s setup) equal(what string, got, want any) {
	s.Helper()
	if got != want {
		s.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

func (s setup) json(what string, got []byte, want string) {
	s.Helper()
	var v json.RawMessage
	s.must(json.Unmarshal(got, &v))
	s.equal(what, strings.ReplaceAll(string(v), " ", ""), want)
}

func (s setup) refused(err error, code uint32, message string) {
	s.Helper()
	var e *centrifuge.Error
	if !errors.As(err, &e) || e.Code != code || e.Message != message {
		s.Fatalf("error %v, want %d: %s", err, code, message)
	}
}
