package grpcapi

import (
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/gyrohq/gyro/server/internal/api"
)

const errorType = "type.googleapis.com/centrifugal.centrifugo.api.Error"

func statusOf(e *api.Error) error {
	return status.ErrorProto(&spb.Status{
		Code: int32(codeOf(e)), Message: e.Message,
		Details: []*anypb.Any{{TypeUrl: errorType, Value: e.AppendProto(nil)}},
	})
}

func codeOf(e *api.Error) codes.Code {
	switch e.Code {
	case api.ErrUnknownChannel.Code, api.ErrNotFound.Code:
		return codes.NotFound
	case api.ErrPermissionDenied.Code:
		return codes.PermissionDenied
	case api.ErrBadRequest.Code, api.ErrNotAvailable.Code:
		return codes.InvalidArgument
	case api.ErrUnrecoverablePosition.Code:
		return codes.OutOfRange
	case api.ErrConflict.Code:
		return codes.AlreadyExists
	default:
		return codes.Internal
	}
}
