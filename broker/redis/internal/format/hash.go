package format

import (
	"strconv"
	"sync"
)

// Hash is the FNV-1a 64 of a channel.
func Hash(ch string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(ch) {
		hash = (hash ^ uint64(ch[i])) * 1099511628211
	}
	return hash
}

// Jump is the jump consistent hash of Lamping and Veach: a bucket of n.
func Jump(hash uint64, n int) int {
	if n <= 1 {
		return 0
	}
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		hash = hash*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((hash>>33)+1)))
	}
	return int(b)
}

// PartitionSlot is the slot of a partition in a Cluster.
func PartitionSlot(partition int) int { return slotOf(PartitionTag(partition)) }

// Spread returns hash tags whose slots are spread evenly: one in each sixteenth of all slots.
var Spread = sync.OnceValue(func() (list [16]string) {
	for i, found := 0, 0; found < len(list); i++ {
		if at := &list[slotOf(strconv.Itoa(i))*len(list)/16384]; *at == "" {
			*at = strconv.Itoa(i)
			found++
		}
	}
	return list
})

// slotOf is the CRC16 (XMODEM) modulo 16384.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}
