// Command codecgen generates Go structs and their JSON and Protobuf codecs from
// the schema of the client protocol, and the Protobuf codec alone from that of the
// control protocol. The output depends on nothing but the schema: it needs no
// Protobuf runtime, no reflection, and carries no date.
//
//	codecgen -schema client.proto -out .
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	schema := flag.String("schema", "client.proto", "schema to read")
	out := flag.String("out", ".", "folder to write to")
	pkg := flag.String("package", "protocol", "name of the generated package")
	json := flag.Bool("json", true, "whether there is a JSON form")
	flag.Parse()
	if err := run(*schema, *out, *pkg, *json); err != nil {
		fmt.Fprintln(os.Stderr, "codecgen:", err)
		os.Exit(1)
	}
}

func run(schemaPath, out, pkg string, json bool) error {
	files, err := Generate(context.Background(), schemaPath, pkg, json)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Generate returns the generated files by their names. Without a JSON form the
// annotations that concern it are not needed.
func Generate(ctx context.Context, schemaPath, pkg string, json bool) (map[string][]byte, error) {
	s, err := loadSchema(ctx, schemaPath, json)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	generators := map[string]func(*printer, *schema){
		"messages_gen.go": generateStructs,
		"protobuf_gen.go": generateProtobuf,
	}
	if json {
		generators["json_gen.go"] = generateJSON
	}
	for name, generate := range generators {
		p := newPrinter(filepath.Base(schemaPath), pkg)
		generate(p, s)
		if files[name], err = p.source(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}
