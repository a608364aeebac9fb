// Package control is the protocol between the nodes of a cluster. Its
// messages are generated from control.proto.
package control

const (
	Version = 3
	// Confirms is the first version whose nodes confirm commands.
	Confirms = 2
	// Deadlines is the first version whose nodes know Command.deadlines.
	Deadlines = 3
)
