// Package books counts the messages of subscribers: each once and in order, or else the faults.
package books

import "slices"

// Book counts messages. A missing one counts as lost until it comes, which makes it late.
type Book struct {
	Received uint64 `json:"received"` // each once
	Lost     uint64 `json:"lost"`
	Twice    uint64 `json:"twice"`
	Late     uint64 `json:"late"`    // out of order
	Told     uint64 `json:"told"`    // missing, and the subscriber was told so when it came back
	Foreign  uint64 `json:"foreign"` // of another channel, or not published by this run
}

func (b *Book) Add(o Book) {
	other := o.figures()
	for i, n := range b.figures() {
		*n += *other[i]
	}
}

func (b *Book) figures() [6]*uint64 {
	return [...]*uint64{&b.Received, &b.Lost, &b.Twice, &b.Late, &b.Told, &b.Foreign}
}

func (b *Book) Faults() uint64 { return b.Lost + b.Twice + b.Late + b.Told + b.Foreign }

// span is a run of numbers that did not come: [from, to).
type span struct{ from, to uint64 }

// Gaps are the numbers below the next one that subscribers did not get, by connection. Few connections have any.
type Gaps map[int][]span

// Enter enters message n for a connection that expects next.
func (b *Book) Enter(g Gaps, conn int, next *uint64, n uint64) {
	switch {
	case n == *next:
		*next++
		b.Received++
	case n > *next:
		g.add(conn, span{*next, n})
		b.Lost += n - *next
		*next = n + 1
		b.Received++
	case g.take(conn, n):
		b.Lost--
		b.Late++
		b.Received++
	default:
		b.Twice++
	}
}

// Settle enters as lost the missing ones of a channel's first total messages.
func (b *Book) Settle(g Gaps, conn int, next *uint64, total uint64) {
	if *next < total {
		g.add(conn, span{*next, total})
		b.Lost += total - *next
		*next = total
	}
}

// Tell enters that a connection was told of a gap up to n, its next one.
func (b *Book) Tell(next *uint64, n uint64) {
	if *next < n {
		b.Told += n - *next
		*next = n
	}
}

func (g Gaps) add(conn int, s span) { g[conn] = append(g[conn], s) }

func (g Gaps) take(conn int, n uint64) bool {
	list := g[conn]
	i := slices.IndexFunc(list, func(s span) bool { return s.from <= n && n < s.to })
	if i < 0 {
		return false
	}
	var left []span
	if s := list[i]; s.from < n {
		left = append(left, span{s.from, n})
	}
	if s := list[i]; n+1 < s.to {
		left = append(left, span{n + 1, s.to})
	}
	list = slices.Replace(list, i, i+1, left...)
	if len(list) == 0 {
		delete(g, conn)
	} else {
		g[conn] = list
	}
	return true
}

func (b *Book) OK() bool { return b.Faults() == 0 }

// Since returns the entries after an earlier state of the book.
func (b *Book) Since(o Book) Book {
	since, before := *b, o.figures()
	for i, n := range since.figures() {
		*n -= *before[i]
	}
	return since
}
