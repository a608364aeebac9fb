// Command configdoc writes docs/configuration.md, the reference of the configuration, to the file that it is given:
// head.md, and what config.WriteMarkdown says of each key.
package main

import (
	"bytes"
	_ "embed"
	"log"
	"os"

	"github.com/gyrohq/gyro/server/internal/config"
)

//go:embed head.md
var head []byte

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: configdoc FILE")
	}
	page := bytes.NewBuffer(bytes.Clone(head))
	if err := config.WriteMarkdown(page, "", 2); err != nil {
		log.Fatal("configdoc: ", err)
	}
	if err := os.WriteFile(os.Args[1], page.Bytes(), 0o644); err != nil {
		log.Fatal("configdoc: ", err)
	}
}
