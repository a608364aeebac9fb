package userstatus

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	// renewal is the time of a round that notes the connected users as online.
	renewal   = 25 * time.Second
	gathering = time.Second
	// maxGathered: further users are noted by the next round.
	maxGathered = 65_536
	batchSize   = 512
)

// Node is the part of *gyro.Node that a Manager uses.
type Node interface {
	Cluster() gyro.Cluster
	Inspect() gyro.Inspector
}

// Kinds of calls to the storage, for Config.Observe.
const (
	Online = "online" // notes connected users
	Active = "active" // notes an activity
	Get    = "get"
	Delete = "delete"
)

// Config of a Keeper.
type Config struct {
	Node Node
	// Observe, if set, is called by any goroutine after each call to the storage.
	Observe func(kind string, users int, err error)
	// Logger is wrapped by logging.Wrap; nil: slog.Default().
	Logger *slog.Logger
}

var _ api.Statuses = (*Manager)(nil)

// Manager keeps the status of users. It notes the connected users by itself, and others when a client or the API asks
// for it. Any goroutine may call its methods. A nil Manager keeps nothing, and only Start, Close and Connected may be
// called.
type Manager struct {
	store  Store
	cfg    Config
	log    *slog.Logger
	stop   context.CancelFunc
	ended  sync.WaitGroup
	outage logging.Outage // of calls that note online users

	mu       sync.Mutex
	gathered map[string]struct{} // users that have connected
	noted    map[string]struct{} // users whose activity was noted within the last second
}

// New returns the manager that a configuration describes, nil for none. It connects to nothing. Errors name the key.
func New(of *config.Config, c Config) (*Manager, error) {
	u := &of.UserStatus
	if !u.Enabled {
		return nil, nil
	}
	inRedis, section, server := u.InRedis(&of.Engine)
	if !inRedis {
		return newManager(NewMemory(u.ExpireInterval), c), nil
	}
	shards, err := services.RedisShards(&server.Redis)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", section, err)
	}
	store := NewRedis(section, services.AddressKey(&server.Redis), shards, server.Prefix, u.ExpireInterval)
	store.patience = server.StartTimeout
	return newManager(store, c), nil
}

func newManager(s Store, c Config) *Manager {
	if c.Observe == nil {
		c.Observe = func(string, int, error) {}
	}
	return &Manager{store: s, cfg: c, log: logging.Wrap(c.Logger), stop: func() {}, gathered: make(map[string]struct{}), noted: make(map[string]struct{})}
}

// Start connects to the storage and begins the rounds. An error names the key, and leaves nothing running.
func (k *Manager) Start(ctx context.Context) error {
	if k == nil {
		return nil
	}
	if err := k.store.Start(ctx); err != nil {
		return err
	}
	var running context.Context
	running, k.stop = context.WithCancel(context.Background())
	k.ended.Go(func() { k.noteConnected(running) })
	k.ended.Go(func() { k.renew(running) })
	return nil
}

// Close may be called without Start, and more than once.
func (k *Manager) Close() {
	if k == nil {
		return
	}
	k.stop()
	k.ended.Wait()
	k.store.Close()
}

// Connected notes soon that a user is online. It does not block.
func (k *Manager) Connected(user string) {
	if k == nil || user == "" || len(user) > MaxUser {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.gathered) < maxGathered {
		k.gathered[user] = struct{}{}
	}
}

// Method is the RPC that tells the server that a client's user is active.
const Method = "update_user_status"

// Active answers that RPC. Within a second, further calls for the same user write nothing.
func (k *Manager) Active(ctx context.Context, user string) error {
	if user == "" || len(user) > MaxUser {
		return errNobody
	}
	k.mu.Lock()
	_, noted := k.noted[user]
	k.mu.Unlock()
	if noted {
		return nil
	}
	if err := k.Update(ctx, []string{user}, ""); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.noted) < maxGathered {
		k.noted[user] = struct{}{}
	}
	return nil
}

// Update notes that users are active now. An empty state changes nothing.
func (k *Manager) Update(ctx context.Context, users []string, state string) error {
	err := check(users)
	if err == nil && len(state) > MaxState {
		err = errState
	}
	if err != nil {
		return err
	}
	return k.done(Active, len(users), k.store.Update(ctx, users, Status{Active: now(), State: state}))
}

// Get returns a status for each user, in their order.
func (k *Manager) Get(ctx context.Context, users []string) ([]api.UserStatus, error) {
	if err := check(users); err != nil {
		return nil, err
	}
	list, err := k.store.Get(ctx, users)
	if k.done(Get, len(users), err) != nil {
		return nil, err
	}
	statuses := make([]api.UserStatus, len(list))
	for i, s := range list {
		statuses[i] = api.UserStatus{User: users[i], Active: s.Active, Online: s.Online, State: s.State}
	}
	return statuses, nil
}

// Delete forgets users.
func (k *Manager) Delete(ctx context.Context, users []string) error {
	if err := check(users); err != nil {
		return err
	}
	k.mu.Lock()
	for _, user := range users {
		delete(k.gathered, user)
		delete(k.noted, user)
	}
	k.mu.Unlock()
	return k.done(Delete, len(users), k.store.Delete(ctx, users))
}

func (k *Manager) done(kind string, users int, err error) error {
	k.cfg.Observe(kind, users, err)
	return err
}

// online notes users. A failure is logged when it begins and ends; the next round tries again.
func (k *Manager) online(ctx context.Context, users []string) {
	err := k.done(Online, len(users), k.store.Update(ctx, users, Status{Online: now()}))
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if k.outage.Fail(err) == 1 {
			k.log.Error("user status: who is online cannot be noted, trying again", "key", "user_status", "users", len(users), "error", err)
		}
	} else if failures, _ := k.outage.End(); failures > 0 {
		k.log.Info("user status: who is online is noted again", "key", "user_status")
	}
}

func (k *Manager) noteConnected(ctx context.Context) {
	ticker := time.NewTicker(gathering)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		k.mu.Lock()
		users := make([]string, 0, len(k.gathered))
		for user := range k.gathered {
			users = append(users, user)
		}
		clear(k.gathered)
		clear(k.noted)
		k.mu.Unlock()
		for batch := range slices.Chunk(users, batchSize) {
			if ctx.Err() == nil {
				k.online(ctx, batch)
			}
		}
	}
}

// renew notes the connected users in rounds. The first one begins at a random moment, so that nodes that were started
// together do not write together. A round makes one call at a time, with pauses between.
func (k *Manager) renew(ctx context.Context) {
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if wait(rand.N(renewal)) != nil {
		return
	}
	for {
		began, calls := time.Now(), 1
		if nodes, err := k.cfg.Node.Cluster().Nodes(ctx); err == nil && len(nodes) > 0 {
			calls += nodes[0].NumClients / batchSize // and more, if the node tells of fewer users at a time
		}
		pause := min(renewal*3/4/time.Duration(calls), time.Second)
		for users, err := range k.cfg.Node.Inspect().Users(ctx) {
			if err != nil {
				break // of ctx
			}
			for batch := range slices.Chunk(slices.DeleteFunc(users, func(u string) bool { return len(u) > MaxUser }), batchSize) {
				k.online(ctx, batch)
				if wait(pause/2+rand.N(pause)) != nil {
					return
				}
			}
		}
		if wait(max(renewal-time.Since(began), time.Second)) != nil {
			return
		}
	}
}
