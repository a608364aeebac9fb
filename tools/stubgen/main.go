// Command stubgen generates a Go client of a gRPC service from its published schema, by the plugins
// that users run under protoc: protoc-gen-go and protoc-gen-go-grpc, which are tools of this module.
//
//	stubgen -schema unistream.proto -out internal
//
// With -descriptor it also writes the descriptor of the schema, which the reflection service of gRPC serves.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	schema := flag.String("schema", "", "schema to read")
	out := flag.String("out", ".", "folder to which go_package of the schema is relative")
	descriptor := flag.String("descriptor", "", "file for the descriptor of the schema; empty for none")
	flag.Parse()
	if err := run(*schema, *out, *descriptor); err != nil {
		fmt.Fprintln(os.Stderr, "stubgen:", err)
		os.Exit(1)
	}
}

func run(schema, out, descriptor string) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(schema)}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), filepath.Base(schema))
	if err != nil {
		return err
	}
	file := protoutil.ProtoFromFileDescriptor(files[0])
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{filepath.Base(schema)},
		ProtoFile:      []*descriptorpb.FileDescriptorProto{file},
	})
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin, request, out); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	if descriptor == "" {
		return nil
	}
	file.SourceCodeInfo = nil // comments, which are of no use to callers
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(file)
	if err != nil {
		return err
	}
	return os.WriteFile(descriptor, text, 0o644)
}

// generate runs a plugin and writes the files that it returns.
func generate(plugin string, request []byte, out string) error {
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		path := filepath.Join(out, f.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
