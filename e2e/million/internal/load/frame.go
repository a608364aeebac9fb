//go:build linux

package load

import (
	"errors"

	"github.com/gyrohq/gyro/internal/wsclient"
)

var errFrame = errors.New("the server has sent a message in parts, or of more than 16 MiB")

const largestFrame = 16 << 20

// frame returns the first frame and its size: 0 if data has only a part.
func frame(data []byte) (op byte, payload []byte, size int, err error) {
	h, complete, err := wsclient.ParseHeader(data)
	switch {
	case err != nil || !complete:
		return 0, nil, 0, err
	case !h.Fin || h.Op == wsclient.OpContinuation || h.Size > largestFrame:
		return 0, nil, 0, errFrame
	}
	size = h.Head + int(h.Size)
	if len(data) < size {
		return 0, nil, 0, nil
	}
	return h.Op, data[h.Head:size], size, nil
}

// appendFrame masks by 0, so the payload is as it is.
func appendFrame(dst []byte, op byte, payload []byte) []byte {
	return wsclient.AppendFrame(dst, op, 0, payload)
}

const key = "dGhlIHNhbXBsZSBub25jZQ=="

var subprotocols = [2]string{"", "centrifuge-protobuf"}

func handshake(host string, encoding uint8) []byte {
	return wsclient.AppendRequest(nil, host, "/connection/websocket", key, subprotocols[encoding], nil)
}

// shaken returns the size of the answer to a handshake; 0 if data has only a part.
func shaken(data []byte, encoding uint8) (int, error) {
	return wsclient.ParseAnswer(data, key, subprotocols[encoding])
}
