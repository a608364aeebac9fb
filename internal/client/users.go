package client

import (
	"slices"
	"sync"
)

// userCounts counts the node's connections per user. The zero value counts none. Any
// goroutine may use it.
type userCounts struct {
	mu sync.Mutex
	m  map[string]int
	n  int
}

// Add counts a connection unless its user has limit of them already. Anonymous
// users have no limit.
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

// Remove undoes an Add.
func (u *userCounts) Remove(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	if u.m[user]--; u.m[user] == 0 {
		delete(u.m, user)
	}
}

// Totals returns the numbers of connections and of distinct users.
func (u *userCounts) Totals() (clients, users int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n, len(u.m)
}

// Target selects connections. An empty Client or Session selects all.
type Target struct {
	// User of the connections; empty for anonymous ones, unless AnyUser is set.
	User    string
	AnyUser bool
	// Client and Session are the IDs that a connection must have.
	Client, Session string
	// Whitelist are the IDs of clients that are not selected.
	Whitelist []string
}

// Match reports whether t selects the client with an ID. The caller has found the client by
// User and Session, which Match does not look at.
func (t *Target) Match(client string) bool {
	return (t.Client == "" || t.Client == client) && !slices.Contains(t.Whitelist, client)
}
