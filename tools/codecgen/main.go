// Command codecgen generates Go structs and their JSON and Protobuf codecs from a
// schema, and the methods of its service if there is one. The output depends on nothing
// but the schema: it needs no Protobuf runtime, no reflection, and carries no date.
//
//	codecgen -schema client.proto -out .
//
// Annotations in comments say what a schema has no words for. Behind a field:
//
//	@raw       bytes that are a value of its own in JSON, so they have to be JSON there
//	@checked   beside @raw: the struct also has a bool that says that the bytes are known to
//	           be JSON without line breaks (DataChecked for Data)
//	@always    the JSON key is written even if the value is zero
//	@nojson    the field does not exist in JSON
//	@most=N    readers keep N elements of the list, counted over all messages that come
//	           together; if there are more, the message is marked (Excess)
//	@many      a message can have very many of these: readers lay them side by side in
//	           shared memory, and a list holds values instead of pointers
//	@rare=T    most messages lack the field: it is in the struct T, which the message
//	           points to (Options), and several messages can share. It makes no difference on
//	           the wire.
//
// Behind the comment of a message:
//
//	@framed    frames consist of such messages
//	@shared    it can be read without copies
//	@union=I   of its members, which are messages, one counts: the first in the order of
//	           the schema. The interface I stands for it in Go.
//	@nocode    it is for other readers of the schema
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
	elements := flag.Int("elements", 0, "how many elements of lists and maps readers accept; 0 is no bound")
	flag.Parse()
	if err := run(*schema, *out, *pkg, *json, *elements); err != nil {
		fmt.Fprintln(os.Stderr, "codecgen:", err)
		os.Exit(1)
	}
}

func run(schemaPath, out, pkg string, json bool, elements int) error {
	files, err := Generate(context.Background(), schemaPath, pkg, json, elements)
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
func Generate(ctx context.Context, schemaPath, pkg string, json bool, elements int) (map[string][]byte, error) {
	s, err := loadSchema(ctx, schemaPath, json)
	if err != nil {
		return nil, err
	}
	s.elements = elements
	files := make(map[string][]byte)
	generators := map[string]func(*printer, *schema){
		"messages_gen.go": generateStructs,
		"protobuf_gen.go": generateProtobuf,
	}
	if json {
		generators["json_gen.go"] = generateJSON
	}
	if s.service != "" {
		generators["service_gen.go"] = generateService
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
