// Package ordered has a map that iterates over its values in the order of their addition.
package ordered

import "slices"

const few = 8

// Map is a map of values by keys. The zero value is empty. Its user calls one method at a time.
type Map[K, V comparable] struct {
	order []element[K, V] // once there is an index, also removed elements
	byKey map[K]V         // the index; nil: there are few
}

type element[K, V comparable] struct {
	key   K
	value V
}

// Get returns the value of a key, or the zero value.
func (m *Map[K, V]) Get(key K) V {
	if m.byKey != nil {
		return m.byKey[key]
	}
	var value V
	if at := m.index(key); at >= 0 {
		value = m.order[at].value
	}
	return value
}

// index is -1 if there is no index and no such key.
func (m *Map[K, V]) index(key K) int {
	return slices.IndexFunc(m.order, func(e element[K, V]) bool { return e.key == key })
}

// Add adds a value, with a key that the map does not have.
func (m *Map[K, V]) Add(key K, value V) {
	switch {
	case m.byKey == nil && len(m.order) == few:
		m.byKey = make(map[K]V)
		for _, e := range m.order {
			m.byKey[e.key] = e.value
		}
	case m.byKey != nil && len(m.order) > 2*len(m.byKey)+few:
		m.order = m.left()
	}
	if m.byKey != nil {
		m.byKey[key] = value
	}
	m.order = append(m.order, element[K, V]{key, value})
}

// Remove removes a value.
func (m *Map[K, V]) Remove(key K) {
	if m.byKey != nil {
		delete(m.byKey, key)
		return
	}
	if at := m.index(key); at >= 0 {
		m.order = slices.Delete(m.order, at, at+1)
	}
}

// All returns the values.
func (m *Map[K, V]) All() []V {
	list := make([]V, 0, len(m.order))
	for _, e := range m.left() {
		list = append(list, e.value)
	}
	return list
}

func (m *Map[K, V]) left() []element[K, V] {
	if m.byKey == nil {
		return m.order
	}
	list := make([]element[K, V], 0, len(m.byKey))
	for _, e := range m.order {
		if value, ok := m.byKey[e.key]; ok && value == e.value {
			list = append(list, e)
		}
	}
	return list
}
