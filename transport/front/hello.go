package front

// maxHello is the most bytes of a ClientHello. Browsers send 2 KB. crypto/tls takes 64 KB, and an unfinished one takes
// twice its length of memory.
const maxHello = 16 << 10

// maxHandshake is how many bytes a client may send in a handshake, certificates included.
const maxHandshake = 64 << 10

// hello finds the length of the ClientHello, which may be spread over several records.
type hello struct {
	record  [5]byte // the header of the record
	message [4]byte // the header of the message
	read    int     // bytes of record
	got     int     // bytes of message
	left    int     // missing bytes of the record
}

// length takes further bytes, and returns the length of the message; 0: not known yet.
func (h *hello) length(data []byte) int {
	for _, b := range data {
		switch {
		case h.got == len(h.message):
		case h.read < len(h.record):
			h.record[h.read] = b
			if h.read++; h.read == len(h.record) {
				h.left = int(h.record[3])<<8 | int(h.record[4])
			}
		default:
			h.message[h.got] = b
			h.got++
			h.left--
		}
		if h.read == len(h.record) && h.left == 0 {
			h.read = 0
		}
	}
	if h.got < len(h.message) {
		return 0
	}
	return int(h.message[1])<<16 | int(h.message[2])<<8 | int(h.message[3])
}
