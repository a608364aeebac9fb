package wire

// Union gathers the members that a message has, of which one counts: the first in the
// order of the schema, whatever the order on the wire. T is an interface; nil stands for
// a member that is missing. The zero value is empty.
type Union[T comparable] struct {
	member int // which one value is
	value  T
	others map[int]T
}

// Set sets a member, in place of what came before under its name.
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
