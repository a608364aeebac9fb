package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/protocol"
)

// frame is the header of a frame.
type frame struct {
	op     ws.OpCode
	fin    bool
	header int // bytes
	size   int // bytes, header included; 0 if the header is not complete
}

// parseFrame reads the header at the start of data.
func parseFrame(data []byte) (frame, error) {
	if len(data) < 2 {
		return frame{}, nil
	}
	f := frame{op: ws.OpCode(data[0] & 0x0f), fin: data[0]&0x80 != 0, header: 2}
	if data[0]&0x70 != 0 || data[1]&0x80 != 0 {
		return f, errors.New("the server sends a frame with reserved bits or a mask")
	}
	size := uint64(data[1])
	switch size {
	case 126:
		if f.header = 4; len(data) < f.header {
			return f, nil
		}
		size = uint64(binary.BigEndian.Uint16(data[2:]))
	case 127:
		if f.header = 10; len(data) < f.header {
			return f, nil
		}
		size = binary.BigEndian.Uint64(data[2:])
	}
	if size > maxFrame {
		return f, fmt.Errorf("the server sends a frame of %d bytes, the limit is %d", size, maxFrame)
	}
	f.size = f.header + int(size)
	return f, nil
}

// FirstMessage returns the first protocol message of a WebSocket message, with its delimiter. If
// the WebSocket message is malformed, it returns all of it.
func FirstMessage(e protocol.Encoding, frame []byte) []byte {
	if e == protocol.JSON {
		if i := bytes.IndexByte(frame, '\n'); i >= 0 {
			return frame[:i+1]
		}
		return frame
	}
	size, n := binary.Uvarint(frame)
	if n <= 0 || size > uint64(len(frame)-n) {
		return frame
	}
	return frame[:n+int(size)]
}
