package httpapi

import (
	"net/http"

	"github.com/gyrohq/gyro/server/internal/api"
)

const modeTransport = "transport"

func wantsTransport(f fields) bool {
	return f.Get("X-Centrifugo-Error-Mode") == modeTransport || f.Get("X-Gyro-Error-Mode") == modeTransport
}

func httpStatus(e *api.Error) int {
	switch e.Code {
	case api.ErrUnknownChannel.Code, api.ErrNotFound.Code:
		return http.StatusNotFound
	case api.ErrPermissionDenied.Code:
		return http.StatusForbidden
	case api.ErrBadRequest.Code, api.ErrNotAvailable.Code:
		return http.StatusBadRequest
	case api.ErrUnrecoverablePosition.Code:
		return http.StatusRequestedRangeNotSatisfiable
	case api.ErrConflict.Code:
		return http.StatusConflict
	default:
		return http.StatusInternalServerError
	}
}
