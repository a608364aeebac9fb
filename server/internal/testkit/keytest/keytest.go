// Package keytest tells tests whether the keys that messages name exist.
package keytest

import (
	"bytes"
	"regexp"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

var reference = sync.OnceValues(func() ([]byte, error) {
	var b bytes.Buffer
	err := config.WriteMarkdown(&b, "", 1)
	return b.Bytes(), err
})

var element = regexp.MustCompile(`\[[^\]]*\](\([^)]*\))?`)

// Check fails the test if the configuration has no such key, or section. Elements of lists have their name in brackets:
// channel.namespaces[chat].presence, or behind them: channel.namespaces[0](chat).presence.
func Check(t testing.TB, key string) {
	t.Helper()
	table, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	row := "| `" + element.ReplaceAllString(key, "[]")
	if !bytes.Contains(table, []byte(row+"`")) && !bytes.Contains(table, []byte(row+".")) && !bytes.Contains(table, []byte(row+"[].")) {
		t.Errorf("the configuration has no key %q", key)
	}
}
