package wire

// Union gathers the members of a message; the first in the order of the schema counts. T is an interface; nil is a
// missing member. The zero value is empty.
type Union[T comparable] struct {
	member int // number of value
	value  T
	others map[int]T
}

// Set sets a member.
func (u *Union[T]) Set(member int, v T) {
	var none T
	if u.value != none && u.member != member {
		if u.others == nil {
			u.others = make(map[int]T, 1)
		}
		u.others[member] = v
		return
	}
	u.member, u.value = member, v
	if u.others != nil {
		delete(u.others, member)
	}
}

// Get returns a member.
func (u *Union[T]) Get(member int) T {
	if u.member == member {
		return u.value
	}
	return u.others[member]
}

// First returns the member that counts.
func (u *Union[T]) First() T {
	var none T
	member, first := u.member, u.value
	for i, v := range u.others {
		if v != none && (first == none || i < member) {
			member, first = i, v
		}
	}
	return first
}
