package client

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/internal/random"
)

// newClientID returns a random UUID (version 4). It is no secret, so a fast generator without system calls makes it.
func newClientID() (id uuid.UUID) {
	binary.NativeEndian.PutUint64(id[:8], random.Uint64())
	binary.NativeEndian.PutUint64(id[8:], random.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
