package client

import (
	"testing"
	"testing/synctest"
)

// The server grants deltas of a map no more, and grants them again: patches build on entries that came without. Clients
// that keep no bytes of entries cannot do that, so it is no fixture.
func TestDeltasAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run(t, `client {}
do connect
event connecting {"code":0,"reason":"connect called"}
dial
open
C {"id":1,"connect":{}}
S {"id":1,"connect":{"client":"c1"}}
event connected {"client":"c1"}
subscription board {"type":"map","delta":"fossil"}
do subscribe board
event board subscribing {"code":0}
C {"id":2,"subscribe":{"channel":"board","type":1,"phase":2,"delta":"fossil","flag":1}}
S {"id":2,"subscribe":{"type":1,"epoch":"A","offset":1,"recoverable":true,"delta":true,"state":[{"key":"a","data":"7","offset":1}]}}
event board subscribed {}
event board state {"entries":[{"key":"a","data":7}]}
S {"push":{"channel":"board","unsubscribe":{"code":2500,"reason":"insufficient state"}}}
event board subscribing {"code":2500}
C {"id":3,"subscribe":{"channel":"board","type":1,"phase":1,"recover":true,"offset":1,"epoch":"A","delta":"fossil","flag":1}}
S {"id":3,"subscribe":{"type":1,"epoch":"A","offset":2,"recoverable":true,"recovered":true,"was_recovering":true,"publications":[{"key":"a","data":{"value":1,"unit":"celsius","sensor":"kitchen-1"},"offset":2}]}}
event board subscribed {"recovered":true}
event board publication {"key":"a","data":{"value":1,"unit":"celsius","sensor":"kitchen-1"},"offset":2}
S {"push":{"channel":"board","unsubscribe":{"code":2500,"reason":"insufficient state"}}}
event board subscribing {"code":2500}
wait 1s
C {"id":4,"subscribe":{"channel":"board","type":1,"phase":1,"recover":true,"offset":2,"epoch":"A","delta":"fossil","flag":1}}
S {"id":4,"subscribe":{"type":1,"epoch":"A","offset":3,"recoverable":true,"recovered":true,"was_recovering":true,"delta":true,"publications":[{"key":"a","data":"m\nA:{\"value\":2c@A,33v0MH;","offset":3,"delta":true}]}}
event board subscribed {"recovered":true}
event board publication {"key":"a","data":{"value":2,"unit":"celsius","sensor":"kitchen-1"},"offset":3}
`)
	})
}
