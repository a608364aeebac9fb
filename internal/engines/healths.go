package engines

import (
	"reflect"
	"slices"

	"github.com/gyrohq/gyro/broker"
)

// Healths returns the Health functions of the engines, each engine's once.
func Healths(engines ...broker.Engine) (list []func() []broker.Health) {
	var seen []broker.Engine // of comparable types
	for _, e := range engines {
		if e == nil {
			continue
		}
		if reflect.ValueOf(e).Comparable() {
			if slices.Contains(seen, e) {
				continue
			}
			seen = append(seen, e)
		}
		if health := e.Describe().Health; health != nil {
			list = append(list, health)
		}
	}
	return list
}
