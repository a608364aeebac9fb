package grpcapi

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/gyrohq/gyro/server/internal/api"
)

// health is the standard health service, for the server ("") and the API.
type health struct {
	healthpb.UnimplementedHealthServer
	ready   func() error    // nil: always
	closing context.Context // ends with the server
}

func (h *health) status() healthpb.HealthCheckResponse_ServingStatus {
	if h.closing.Err() != nil || h.ready != nil && h.ready() != nil {
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

func known(service string) bool { return service == "" || service == api.ServiceName }

// Check answers one question.
func (h *health) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !known(r.GetService()) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &healthpb.HealthCheckResponse{Status: h.status()}, nil
}

// List answers for all services.
func (h *health) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	now := &healthpb.HealthCheckResponse{Status: h.status()}
	return &healthpb.HealthListResponse{Statuses: map[string]*healthpb.HealthCheckResponse{"": now, api.ServiceName: now}}, nil
}

// watchInterval is how often Watch checks the status.
const watchInterval = time.Second

// Watch sends the status, and each change, until the client or the server ends the stream.
func (h *health) Watch(r *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		now := healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		if known(r.GetService()) {
			now = h.status()
		}
		if now != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-ticker.C:
		case <-h.closing.Done():
			return status.Error(codes.Unavailable, "the server shuts down")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

const schemaName = "api.proto"

//go:embed api.binpb
var descriptor []byte

// reflect registers the reflection service.
func reflect(s *Server) error {
	file := new(descriptorpb.FileDescriptorProto)
	if err := proto.Unmarshal(descriptor, file); err != nil {
		return fmt.Errorf("grpcapi: descriptor: %w", err)
	}
	schema, err := protodesc.NewFile(file, nil)
	if err != nil {
		return fmt.Errorf("grpcapi: descriptor: %w", err)
	}
	own := new(protoregistry.Files)
	if err := own.RegisterFile(schema); err != nil {
		return fmt.Errorf("grpcapi: descriptor: %w", err)
	}
	o := reflection.ServerOptions{Services: s, DescriptorResolver: resolver{own}}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(o))
	reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(o))
	return nil
}

// resolver finds the schemas of the API and of grpc-go.
type resolver struct{ own *protoregistry.Files }

func (r resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if d, err := r.own.FindFileByPath(path); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (r resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := r.own.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
