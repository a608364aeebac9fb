package clients

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What a refresh proxy gives no answer about lives on for the bound and no longer. An answer begins the time anew.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u unanswered
		const most = 150 * time.Second
		c := thing{"c", ""}
		for range 3 {
			begin := time.Now()
			for _, want := range []time.Duration{60 * time.Second, 120 * time.Second, most} {
				until, ok := u.prolong(c, most)
				if got := until.Sub(begin); !ok || got != want {
					t.Fatalf("lives on until %v, %v, want %v", got, ok, want)
				}
				time.Sleep(time.Until(until))
			}
			if _, ok := u.prolong(thing{"c", "channel"}, most); !ok {
				t.Fatal("a subscription ends for its connection")
			}
			u.answered(thing{"c", "channel"})
			if begin.Second()%2 == 0 { // an answer and the end are alike
				u.answered(c)
			} else if _, ok := u.prolong(c, most); ok {
				t.Fatal("lives on behind the bound")
			}
			time.Sleep(time.Second)
		}
		for range 100 {
			until, ok := u.prolong(c, 0)
			if !ok {
				t.Fatal("ends without a bound")
			}
			time.Sleep(time.Until(until))
		}
	})
}

// Of clients that have gone nothing is kept.
func TestUnansweredForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u unanswered
		for i := range 1000 {
			u.prolong(thing{fmt.Sprint(i), ""}, time.Hour)
			time.Sleep(time.Second)
		}
		if n := len(u.things); n > 5*60 {
			t.Errorf("%d clients are kept", n)
		}
	})
}
