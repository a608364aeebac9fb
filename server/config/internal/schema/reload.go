package schema

import "reflect"

// Reload copies the values that a running server takes over from a later configuration of the
// same type to cfg. It returns the other keys whose values differ, except those without an
// effect. A list of objects is copied as a whole or not at all.
func Reload(cfg, later any) (left []string) { return reload(path{}, root(cfg), root(later), nil) }

func reload(p path, to, from reflect.Value, left []string) []string {
	for _, f := range fieldsOf(to.Type()) {
		c, tv, fv := p.field(f), to.FieldByIndex(f.index), from.FieldByIndex(f.index)
		switch {
		case f.kind == kindSection:
			left = reload(c, tv, fv, left)
		case c.reload:
			tv.Set(fv)
		case c.idle == "" && !(isEmpty(tv) && isEmpty(fv)) && !reflect.DeepEqual(tv.Interface(), fv.Interface()):
			left = append(left, c.msg)
		}
	}
	return left
}
