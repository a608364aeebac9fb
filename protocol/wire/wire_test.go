package wire

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// Copies that share memory are none the less what was copied, and whoever appends to
// one changes no other.
func TestShared(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var m Maker
	m.Share()
	var texts []string
	var copies [][]byte
	for i := range 5000 {
		size := random.IntN(100)
		if i%100 == 0 {
			size = random.IntN(3 * maxChunk)
		}
		b := bytes.Repeat([]byte{byte(i)}, size)
		texts, copies = append(texts, m.Text(b)), append(copies, m.Copy(b))
		clear(b)
		_ = append(copies[random.IntN(len(copies))], 0xff)
	}
	for i, text := range texts {
		if strings.Trim(text, string([]byte{byte(i)})) != "" || string(copies[i]) != text || cap(copies[i]) != len(text) {
			t.Fatalf("copy %d is %q, %q", i, text, copies[i])
		}
	}
	if m.Copy(nil) != nil || m.Copy([]byte{}) == nil {
		t.Error("nil and empty are not told apart")
	}
}

// A list of elements of one length is made with few allocations, and has no more room than
// eight times what it holds; values made beside it are as many, and no two are the same.
func TestExtend(t *testing.T) {
	for _, many := range []int{1, 8, 9, 100, 5000} {
		for _, size := range []int{1, 7, 100} {
			var m Maker
			m.Share()
			var list []int
			made := make(map[*[4]int]bool)
			grown := 0
			for n := range many {
				before := cap(list)
				list = Extend(&m, list, n*size, (many-n)*size)
				if cap(list) != before {
					grown++
				}
				if last := list[len(list)-1]; len(list) != n+1 || last != 0 {
					t.Fatalf("element %d is %d", n, last)
				}
				made[New[[4]int](&m)] = true
			}
			if len(made) != many || grown > 5 || cap(list) > 9*many+16 {
				t.Errorf("%d elements of %d: %d values, list grew %d times to %d", many, size, len(made), grown, cap(list))
			}
		}
	}
	// What comes before a list may be long, so that it seems to be at its end.
	var m Maker
	var list []int
	grown := 0
	for n := range 100_000 {
		before := cap(list)
		if list = Extend(&m, list, 1<<30+n, 100_000-n); cap(list) != before {
			grown++
		}
	}
	if grown > 60 {
		t.Errorf("the list grew %d times", grown)
	}
}

func TestUnion(t *testing.T) {
	type set struct {
		member int
		value  any
	}
	for _, tt := range []struct {
		sets []set
		want any
	}{
		{nil, nil},
		{[]set{{3, "a"}}, "a"},
		{[]set{{3, "a"}, {3, "b"}}, "b"},
		{[]set{{3, "a"}, {5, "b"}}, "a"},
		{[]set{{3, "a"}, {0, "b"}}, "b"},
		{[]set{{3, "a"}, {0, "b"}, {0, nil}}, "a"},
		{[]set{{3, "a"}, {0, "b"}, {3, nil}, {0, nil}}, nil},
		{[]set{{3, "a"}, {5, "b"}, {3, nil}}, "b"},
		{[]set{{3, "a"}, {5, "b"}, {3, nil}, {5, "c"}}, "c"},
		{[]set{{3, "a"}, {5, "b"}, {3, nil}, {5, nil}, {7, "d"}}, "d"},
		{[]set{{0, nil}, {5, "b"}}, "b"},
	} {
		var u Union[any]
		last := make(map[int]any)
		for _, s := range tt.sets {
			u.Set(s.member, s.value)
			last[s.member] = s.value
		}
		if got := u.First(); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.sets, got, tt.want)
		}
		for member := range 8 {
			if got := u.Get(member); got != last[member] {
				t.Errorf("%v: member %d is %v", tt.sets, member, got)
			}
		}
	}
}
