// Package users counts connections.
package users

import "sync"

// Counts counts the node's connections per user. The zero value counts none. Any
// goroutine may use it.
type Counts struct {
	mu sync.Mutex
	m  map[string]int
	n  int
}

// Add counts a connection unless its user has limit of them already. Anonymous
// users have no limit.
func (u *Counts) Add(user string, limit int) bool {
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
func (u *Counts) Remove(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	if u.m[user]--; u.m[user] == 0 {
		delete(u.m, user)
	}
}

// Totals returns the numbers of connections and of distinct users.
func (u *Counts) Totals() (clients, users int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n, len(u.m)
}
