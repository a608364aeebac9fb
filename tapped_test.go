package gyro

// Tapped reports whether the node watches anybody.
func (n *Node) Tapped() bool { return n.clients.Session.Taps.Watching() }
