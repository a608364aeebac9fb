package main

import (
	"net"
	"os"
)

// Messages to systemd, if a unit of Type=notify runs the server: sd_notify(3).
const (
	ready    = "READY=1"
	stopping = "STOPPING=1"
)

// notify tells systemd, by one datagram, whether it hears that or not.
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
