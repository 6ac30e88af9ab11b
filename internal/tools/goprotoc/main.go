// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

// Command goprotoc generates Go code from a .proto file without a protoc to
// install: it compiles the file with protocompile and runs the protoc-gen-*
// plugins found in PATH, as protoc would.
//
//	goprotoc -I proto/root -o out/dir [-plugin go:paths=source_relative]... file.proto
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins are "name:parameter" pairs: "go:paths=source_relative" runs protoc-gen-go.
type plugins []string

func (p *plugins) String() string     { return strings.Join(*p, " ") }
func (p *plugins) Set(s string) error { *p = append(*p, s); return nil }

func main() {
	root := flag.String("I", ".", "directory that imports are relative to")
	out := flag.String("o", ".", "directory to write to")
	var run plugins
	flag.Var(&run, "plugin", "plugin and its parameter, name:parameter (repeatable)")
	flag.Parse()
	if flag.NArg() != 1 || len(run) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := generate(*root, *out, flag.Arg(0), run); err != nil {
		fmt.Fprintln(os.Stderr, "goprotoc:", err)
		os.Exit(1)
	}
}

func generate(root, out, file string, run plugins) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // the plugins copy the comments
	}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file}}
	request.ProtoFile = appendFile(request.ProtoFile, map[string]bool{}, files[0])
	for _, p := range run {
		name, parameter, _ := strings.Cut(p, ":")
		request.Parameter = proto.String(parameter)
		if err := runPlugin("protoc-gen-"+name, out, request); err != nil {
			return fmt.Errorf("protoc-gen-%s: %w", name, err)
		}
	}
	return nil
}

// appendFile appends file after everything it imports, the order plugins need.
func appendFile(list []*descriptorpb.FileDescriptorProto, seen map[string]bool, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return list
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		list = appendFile(list, seen, file.Imports().Get(i).FileDescriptor)
	}
	return append(list, protoutil.ProtoFromFileDescriptor(file))
}

func runPlugin(plugin, out string, request *pluginpb.CodeGeneratorRequest) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.Command(plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
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
