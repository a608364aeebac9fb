package client

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
)

// newClientID returns a random UUID (version 4). It is no secret, so a fast generator without system calls makes it.
func newClientID() (id uuid.UUID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
