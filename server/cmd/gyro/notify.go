package main

import (
	"net"
	"os"
)

// Messages of the server to systemd, if a unit of Type=notify runs it: sd_notify(3).
const (
	ready    = "READY=1"
	stopping = "STOPPING=1"
)

// notify tells systemd, by one datagram. Whether it hears that makes no difference to the server.
func notify(state string) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = c.Write([]byte(state))
	_ = c.Close()
}
