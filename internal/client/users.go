package client

import (
	"slices"
	"sync"
)

// userCounts counts connections per user. The zero value is empty. Any goroutine may use it.
type userCounts struct {
	mu sync.Mutex
	m  map[string]int
	n  int
}

// Add returns false for a user with limit connections. Anonymous users have no limit.
func (u *userCounts) Add(user string, limit int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if limit > 0 && user != "" && u.m[user] >= limit {
		return false
	}
	if u.m == nil {
		u.m = make(map[string]int)
	}
	u.m[user]++
	u.n++
	return true
}

func (u *userCounts) Remove(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	if u.m[user]--; u.m[user] == 0 {
		delete(u.m, user)
	}
}

func (u *userCounts) Totals() (clients, users int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n, len(u.m)
}

// Target selects connections. An empty Client or Session selects all.
type Target struct {
	// User of the connections; empty for anonymous ones, unless AnyUser is set.
	User            string
	AnyUser         bool
	Client, Session string
	// Whitelist has IDs that are not selected.
	Whitelist []string
}

// Match checks the ID of a client that was found by user and session.
func (t *Target) Match(client string) bool {
	return (t.Client == "" || t.Client == client) && !slices.Contains(t.Whitelist, client)
}
