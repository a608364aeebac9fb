package users

import "slices"

// Target selects connections.
type Target struct {
	// User whose connections they are; empty for the anonymous one.
	User string
	// Client and Session, unless they are empty, are the IDs that a connection must have.
	// Match does not look at Session: who has the connections finds them by it.
	Client, Session string
	// Whitelist are the IDs of clients that are not meant.
	Whitelist []string
}

// Match tells whether a connection of the user and the session is selected.
func (t *Target) Match(client string) bool {
	return (t.Client == "" || t.Client == client) && !slices.Contains(t.Whitelist, client)
}
