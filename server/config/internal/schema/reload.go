package schema

import "reflect"

// Reload copies to cfg, from a later configuration of the same type, the values that a
// running server takes over. It returns the keys whose other values differ; those without
// an effect do not count. Lists of objects are taken or left as a whole.
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
