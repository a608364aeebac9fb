// Command codecgen generates Go structs and their JSON and Protobuf codecs from a
// schema, and the methods of its service if there is one. The output depends on nothing
// but the schema: it needs no Protobuf runtime, no reflection, and carries no date.
//
//	codecgen -schema client.proto -out .
//
// Annotations in comments say more than a schema can express. After a field:
//
//	@raw       bytes that are a value of its own in JSON, so they must be JSON there
//	@checked   beside @raw: the struct also has a bool that says that the bytes are known to
//	           be JSON without line breaks (DataChecked for Data)
//	@always    the JSON key is written even if the value is zero
//	@nojson    the field does not exist in JSON
//	@required  the server refuses a request without it, which the code does not check
//	@most=N    readers keep N elements of the list, counted over all messages that come
//	           together; if there are more, the message is marked (Excess)
//	@many      a message can have very many of these: readers lay them side by side in
//	           shared memory, and a list holds values instead of pointers
//	@encoded   the struct also has elements of the list that are encoded already: in Protobuf
//	           with their tags, in JSON with commas between them (StateEncoded for State).
//	           Only writers know it; they write these elements before the others of the list
//	@secret    operators do not see it: Redacted replaces it
//	@rare=T    most messages lack the field: it is in the struct T, which the message
//	           points to (Options), and several messages can share. It makes no difference on
//	           the wire.
//
// After the comment of a message:
//
//	@framed    frames consist of such messages
//	@shared    it can be read without copies
//	@methods   each of its members that is a message, and is not @unused, is the request or the result of a method.
//	           The first message with this annotation defines the methods
//	@union=I   only one of its members, which are messages, counts: the first in the order
//	           of the schema. The interface I stands for it in Go.
//	@nocode    it is for other readers of the schema
//
// With -openapi it writes the OpenAPI document of the service instead, openapi.json: the messages, the methods and
// their comments, put into the frame that the YAML file has (type frame).
//
//	codecgen -schema api.proto -openapi openapi.yaml -out .
//
// With -reference it writes a page of documentation instead: the template, with all messages in place of the line
// {{reference}}, and a table of the methods in place of the line {{methods}} before it, if there is one.
//
//	codecgen -schema client.proto -reference client-protocol.md.tmpl -out ../docs
//
// With -descriptor it writes the descriptor of the schema instead, which the reflection service of gRPC serves.
//
//	codecgen -schema ../api.proto -descriptor api.binpb -out .
//
// With -python it writes the module of the client for Python instead, messages.py: the messages as dataclasses, and a method for each
// method of the service.
//
//	codecgen -schema api.proto -python -out ../../clients/python/src/gyro_api
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
)

type Options struct {
	Package  string // name of the generated package
	JSON     bool   // whether there is a JSON form
	Service  bool   // whether there is code for the service of the schema, which must not have streams
	Elements int    // how many elements of lists and maps readers accept; 0 is no bound
	OpenAPI  string // frame of the OpenAPI document, which is generated instead of code; "" for code
	// Reference is the template of the page to generate instead of code.
	Reference string
	// Descriptor is the name of the file for the schema's descriptor, to generate instead of code.
	Descriptor string
	Python     bool
}

func main() {
	var o Options
	schema := flag.String("schema", "client.proto", "schema to read")
	out := flag.String("out", ".", "folder to write to")
	flag.StringVar(&o.Package, "package", "protocol", "name of the generated package")
	flag.BoolVar(&o.JSON, "json", true, "whether there is a JSON form")
	flag.BoolVar(&o.Service, "service", true, "whether there is code for the service of the schema, which must not have streams")
	flag.IntVar(&o.Elements, "elements", 0, "how many elements of lists and maps readers accept; 0 is no bound")
	flag.StringVar(&o.OpenAPI, "openapi", "", "frame of the OpenAPI document to generate; empty for code")
	flag.StringVar(&o.Reference, "reference", "", "template of the page to generate; empty for code")
	flag.StringVar(&o.Descriptor, "descriptor", "", "name of the descriptor to generate; empty for code")
	flag.BoolVar(&o.Python, "python", false, "generate the module of the client for Python instead of code")
	flag.Parse()
	if err := run(*schema, *out, o); err != nil {
		fmt.Fprintln(os.Stderr, "codecgen:", err)
		os.Exit(1)
	}
}

func run(schemaPath, out string, o Options) error {
	files, err := Generate(context.Background(), schemaPath, o)
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
func Generate(ctx context.Context, schemaPath string, o Options) (map[string][]byte, error) {
	s, err := loadSchema(ctx, schemaPath, o)
	if err != nil {
		return nil, err
	}
	if o.OpenAPI != "" {
		return generateOpenAPI(s, o.OpenAPI)
	}
	if o.Reference != "" {
		return generateReference(s, o.Reference)
	}
	if o.Descriptor != "" {
		return generateDescriptor(s, o.Descriptor)
	}
	if o.Python {
		return generatePython(s, filepath.Base(schemaPath))
	}
	s.elements = o.Elements
	files := make(map[string][]byte)
	generators := map[string]func(*printer, *schema){
		"messages_gen.go": generateStructs,
		"protobuf_gen.go": generateProtobuf,
	}
	if o.JSON {
		generators["json_gen.go"] = generateJSON
	}
	if s.methodsOf != "" {
		generators["methods_gen.go"] = generateMethods
	}
	if s.service != "" {
		generators["service_gen.go"] = generateService
	}
	for name, generate := range generators {
		p := newPrinter(filepath.Base(schemaPath), o.Package)
		generate(p, s)
		if files[name], err = p.source(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

// generateDescriptor leaves the comments of the schema out, because callers do not use them.
func generateDescriptor(s *schema, name string) (map[string][]byte, error) {
	file := protoutil.ProtoFromFileDescriptor(s.file)
	file.SourceCodeInfo = nil
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(file)
	return map[string][]byte{name: content}, err
}
