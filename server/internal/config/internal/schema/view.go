package schema

import (
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Hidden replaces a secret that is set.
const Hidden = "(hidden)"

// Item is a key in a View.
type Item struct {
	Key string `json:"key"`
	// Value is a bool, a number, a string, a list of strings or an object of strings.
	Value any `json:"value"`
	// Default is in the text form of the environment.
	Default string `json:"default,omitempty"`
	// Changed: the value differs from an empty configuration.
	Changed bool `json:"changed,omitempty"`
	// Secret: the value is Hidden if it is set.
	Secret bool `json:"secret,omitempty"`
	// Reload: a running server can change it.
	Reload bool   `json:"reload,omitempty"`
	Idle   string `json:"idle,omitempty"`
	Doc    string `json:"doc,omitempty"`
}

// View lists all keys of cfg for people, in the order of the schema. def is the configuration with nothing set. It shows
// no secret, and no password or token of a URL.
func View(cfg, def any) []Item {
	empty := make(map[string]reflect.Value)
	walk(path{}, root(def), func(l leaf) { empty[l.msg] = l.value })
	var items []Item
	walk(path{}, root(cfg), func(l leaf) {
		if l.kind == kindList {
			return // its elements follow
		}
		before, known := empty[l.msg]
		// Elements of lists are not in def; their defaults are texts.
		changed := l.path.fill(l.def) != ""
		if !isEmpty(l.value) {
			changed = strings.Trim(l.envText(), `"`) != l.path.fill(l.def)
		}
		if known {
			changed = !(isEmpty(before) && isEmpty(l.value)) && !reflect.DeepEqual(before.Interface(), l.value.Interface())
		}
		items = append(items, Item{
			Key: l.msg, Value: l.shown(changed), Default: l.path.fill(l.def), Changed: changed,
			Secret: l.secret, Reload: l.path.reload, Idle: l.path.idle, Doc: l.path.fill(l.field.doc),
		})
	})
	return items
}

func (l leaf) shown(changed bool) any {
	hide := func(text string) string {
		if l.secret && changed && text != "" {
			return Hidden
		}
		text = userOfURL.ReplaceAllString(text, "://"+Hidden+"@")
		if strings.Contains(text, "://") {
			text = secretOfQuery.ReplaceAllString(text, "${1}"+Hidden)
		}
		return text
	}
	switch l.kind {
	case kindBool:
		return l.value.Bool()
	case kindInt:
		return l.value.Int()
	case kindDuration:
		return time.Duration(l.value.Int()).String()
	case kindStrings:
		texts := make([]string, l.value.Len())
		for i := range texts {
			texts[i] = hide(l.value.Index(i).String())
		}
		return texts
	case kindMap:
		texts := make(map[string]string, l.value.Len())
		for it := l.value.MapRange(); it.Next(); {
			texts[it.Key().String()] = hide(it.Value().String())
		}
		return texts
	}
	return hide(l.value.String())
}

// userOfURL matches user and password in a URL that is no secret, such as the endpoint of a proxy.
var userOfURL = regexp.MustCompile(`://[^/\s]*@`)

// secretOfQuery matches query parameters that seem to be secrets.
var secretOfQuery = regexp.MustCompile(`(?i)([?&][^=&\s]*(?:key|token|secret|pass|pwd|sig|auth|credential|code)[^=&\s]*=)[^&#\s]+`)
