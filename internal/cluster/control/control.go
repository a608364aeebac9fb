// Package control is the protocol in which the nodes of a cluster talk (engines.md
// 5.2).
package control

// Versions of the protocol, told by Node.
const (
	Version = 2
	// Confirms is the first version whose nodes confirm commands.
	Confirms = 2
)

// The messages are generated from control.proto. To change a message, change the
// schema.

//go:generate go run github.com/gyrohq/gyro/tools/codecgen -json=false -schema control.proto -package control -out .
