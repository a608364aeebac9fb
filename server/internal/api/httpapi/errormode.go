package httpapi

import (
	"net/http"

	"github.com/gyrohq/gyro/server/internal/api"
)

// modeTransport is the value of the option and of the headers.
const modeTransport = "transport"

// wantsTransport reports whether the request asks for errors as HTTP status.
func wantsTransport(f fields) bool {
	return f.Get("X-Centrifugo-Error-Mode") == modeTransport || f.Get("X-Gyro-Error-Mode") == modeTransport
}

// httpStatus maps an error in transport mode.
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
