package users

import "slices"

// Target selects connections.
type Target struct {
	// User whose connections they are; empty for the anonymous one.
	User string
	// Client and Session, unless they are empty, are the IDs that a connection must have.
	Client, Session string
	// Whitelist are the IDs of clients that are not meant.
	Whitelist []string
}

// Match tells whether a connection of the user is selected. No connection has a session yet.
func (t *Target) Match(client string) bool {
	return (t.Client == "" || t.Client == client) && t.Session == "" && !slices.Contains(t.Whitelist, client)
}
