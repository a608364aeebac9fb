package route

// Mark sets the mark of a channel that has a route: a number other than 0. It stays until it
// is set again or the route ends. Mark reports whether the channel had no mark before.
func (t *Table) Mark(ch string, mark uint8) (first bool) {
	b, hash := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	r, _ := b.m.Get(hash, ch)
	if r == nil {
		return false
	}
	if first = r.mark == 0; first {
		t.marked.Add(1)
	}
	r.mark = mark
	return first
}

// IsMarked reports whether a channel is marked. It costs next to nothing if no channel is.
func (t *Table) IsMarked(ch string) bool {
	if !t.HasMarked() {
		return false
	}
	b, hash := t.bucket(ch)
	r, _ := b.m.Get(hash, ch)
	if r == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.mark != 0
}

// HasMarked reports whether any channel is marked.
func (t *Table) HasMarked() bool { return t.marked.Load() > 0 }

// Marked calls f with the marked channels of a bucket, from 0 to Buckets-1, that have
// subscribers. f must return soon and not use the table.
func (t *Table) Marked(bucket int, f func(ch string, mark uint8)) {
	b := &t.buckets[bucket]
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch, r := range b.m.All {
		if r.mark != 0 && r.Loops() != 0 {
			f(ch, r.mark)
		}
	}
}
