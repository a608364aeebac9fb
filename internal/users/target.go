package users

import "slices"

// Target selects connections of a user.
type Target struct {
	// Client and Session, unless they are empty, are the IDs that a connection must have.
	Client, Session string
	// Whitelist are the IDs of clients that are not meant.
	Whitelist []string
}

// Match tells whether a connection is selected. No connection has a session yet.
func (t *Target) Match(client string) bool {
	return (t.Client == "" || t.Client == client) && t.Session == "" && !slices.Contains(t.Whitelist, client)
}
