//go:build !unix

package netio

func newSocket(Duplex) Stream { return nil }
