// Command codecgen generates Go structs and their JSON and Protobuf codecs from
// the schema of the client protocol. The output depends on nothing but the
// schema: it needs no Protobuf runtime, no reflection, and carries no date.
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
	flag.Parse()
	if err := run(*schema, *out, *pkg); err != nil {
		fmt.Fprintln(os.Stderr, "codecgen:", err)
		os.Exit(1)
	}
}

func run(schemaPath, out, pkg string) error {
	files, err := Generate(context.Background(), schemaPath, pkg)
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

// Generate returns the generated files by their names.
func Generate(ctx context.Context, schemaPath, pkg string) (map[string][]byte, error) {
	s, err := loadSchema(ctx, schemaPath)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for name, generate := range map[string]func(*printer, *schema){
		"messages_gen.go": generateStructs,
		"json_gen.go":     generateJSON,
		"protobuf_gen.go": generateProtobuf,
	} {
		p := newPrinter(filepath.Base(schemaPath), pkg)
		generate(p, s)
		if files[name], err = p.source(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}
