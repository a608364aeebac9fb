// Package ordered has a map whose values are in the order in which they came.
package ordered

// Map is a map of values by keys. The zero value is empty. Its user calls one method at a time.
type Map[K, V comparable] struct {
	byKey map[K]V
	order []element[K, V] // with those that were removed since
}

type element[K, V comparable] struct {
	key   K
	value V
}

// Get returns the value of a key, or the zero value.
func (m *Map[K, V]) Get(key K) V { return m.byKey[key] }

// Add adds a value, with a key that the map does not have.
func (m *Map[K, V]) Add(key K, value V) {
	if m.byKey == nil {
		m.byKey = make(map[K]V)
	}
	if len(m.order) > 2*len(m.byKey)+8 {
		m.order = m.left()
	}
	m.byKey[key] = value
	m.order = append(m.order, element[K, V]{key, value})
}

// Remove removes a value.
func (m *Map[K, V]) Remove(key K) { delete(m.byKey, key) }

// All returns the values.
func (m *Map[K, V]) All() []V {
	list := make([]V, 0, len(m.byKey))
	for _, e := range m.left() {
		list = append(list, e.value)
	}
	return list
}

// left are the elements that were not removed.
func (m *Map[K, V]) left() []element[K, V] {
	list := make([]element[K, V], 0, len(m.byKey))
	for _, e := range m.order {
		if value, ok := m.byKey[e.key]; ok && value == e.value {
			list = append(list, e)
		}
	}
	return list
}
