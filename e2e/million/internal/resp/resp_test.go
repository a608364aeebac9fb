package resp

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"testing"
)

// TestDo: answers of each kind, from a server that looks at what it is asked.
func TestDo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	answers := make(chan string, 1)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			want := "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
			got := make([]byte, len(want))
			if _, err := bufio.NewReader(c).Read(got); err == nil && string(got) == want {
				_, _ = c.Write([]byte(<-answers)) // the client tells if it gets nothing
			}
			c.Close()
		}
	}()
	for _, tt := range []struct {
		answer, err string
		want        []string
	}{
		{"+OK\r\n", "", []string{"OK"}}, {":7\r\n", "", []string{"7"}}, {"$3\r\na\r\n\r\n", "", []string{"a\r\n"}}, {"*2\r\n$1\r\na\r\n:5\r\n", "", []string{"a", "5"}},
		{"*0\r\n", "", []string{}}, {"-ERR no\r\n", "ERR no", nil}, {"$9\r\nabc", "EOF", nil}, {"*2\r\n+a\r\n", "EOF", nil}, {"$x\r\n", "x", nil},
	} {
		answers <- tt.answer
		got, err := Do(listener.Addr().String(), "GET", "k")
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || tt.err == "" && (err != nil || !slices.Equal(got, tt.want)) {
			t.Errorf("%q: %q, %v", tt.answer, got, err)
		}
	}
}
