package route

// Check says how the subscribers' positions in a channel are checked. The zero Check: not at all.
type Check struct {
	// TTL is the number of the time to live that the checker renews, from 1; 0: the channel has no stream to read.
	TTL uint8
	// Fragile subscribers begin anew after each loss.
	Fragile bool
}

// SetCheck sets the Check of a channel that has a route, until it is set again or the route ends. It reports whether the
// channel had none before.
func (t *Table) SetCheck(ch string, c Check) (first bool) {
	b, hash := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	r, _ := b.m.Get(hash, ch)
	if r == nil {
		return false
	}
	if first = r.check == (Check{}); first {
		t.checked.Add(1)
	}
	r.check = c
	return first
}

// CheckOf returns the Check of a channel. It costs next to nothing if no channel has one.
func (t *Table) CheckOf(ch string) Check {
	if !t.HasChecked() {
		return Check{}
	}
	b, hash := t.bucket(ch)
	r, _ := b.m.Get(hash, ch)
	if r == nil {
		return Check{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.check
}

// HasChecked reports whether any channel has a Check.
func (t *Table) HasChecked() bool { return t.checked.Load() > 0 }

// Checked calls f with the channels of a bucket, from 0 to Buckets-1, that have a Check and subscribers. f must return
// soon and not use the table.
func (t *Table) Checked(bucket int, f func(ch string, c Check)) {
	b := &t.buckets[bucket]
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch, r := range b.m.All {
		if r.check != (Check{}) && r.Loops() != 0 {
			f(ch, r.check)
		}
	}
}
