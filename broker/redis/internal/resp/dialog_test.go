package resp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// dialog returns a dialog with a server that gives one answer to each command.
func dialog(t *testing.T, password string, answers ...string) *Dialog {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close() })
	go func() {
		in := bufio.NewReader(far)
		for _, answer := range answers {
			for parts := 2; parts > 0; parts-- { // commands of one word
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			_, _ = io.WriteString(far, answer) // an error shows as one of the dialog
		}
		far.Close()
	}()
	return NewDialog(near, "", password)
}

func TestDialog(t *testing.T) {
	// A Cluster of thousands of nodes describes itself at such a length.
	nodes := strings.Repeat("9b8c 127.0.0.1:14682@24682 master - 0 0 3 connected 0-99\n", 5000)
	d := dialog(t, "", "$6\r\nred\nis\r\n", "*2\r\n$4\r\nhost\r\n$4\r\n6379\r\n", "*-1\r\n",
		"-ERR no\r\n", "="+"5\r\ntxt:a\r\n", "$285000\r\n"+nodes+"\r\n")
	text := func(f Frame, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return string(f.Text)
	}
	if got := text(d.Do("INFO")); got != "red\nis" {
		t.Errorf("%q", got)
	}
	f, err := d.Do("SENTINEL")
	if err != nil || f.Len != 2 || string(f.Items[0]) != "host" || string(f.Items[1]) != "6379" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := d.Do("SENTINEL"); err != nil || f.Len != -1 {
		t.Errorf("%+v, %v", f, err)
	}
	var refused *ErrorReply
	if _, err := d.Do("AUTH"); !errors.As(err, &refused) || *refused != (ErrorReply{"AUTH", "ERR no"}) {
		t.Error(err)
	}
	if got := text(d.Do("INFO")); got != "txt:a" || !d.Empty() {
		t.Errorf("%q", got)
	}
	if got := text(d.Do("CLUSTER")); got != nodes {
		t.Errorf("%d bytes, want %d", len(got), len(nodes))
	}
	if _, err := d.Do("PING"); err == nil {
		t.Error("no error from a closed connection")
	}
}

// TestDialogPassword: servers repeat the arguments of what they refuse.
func TestDialogPassword(t *testing.T) {
	for _, answer := range []string{
		"-ERR unknown command 'AUTH', with args beginning with: 's3cret'\r\n", "-ERR s3cret is too short\r\n", "-s3cret\r\n",
	} {
		_, err := dialog(t, "s3cret", answer).Do("AUTH")
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
