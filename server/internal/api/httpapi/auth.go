package httpapi

import (
	"net/http"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/rights"
)

type fields interface{ Get(name string) string }

// presented returns the credentials in X-API-Key or, without that, Authorization.
func presented(f fields) rights.Credentials {
	if key := f.Get("X-Api-Key"); key != "" {
		return rights.Credentials{Key: key}
	}
	return rights.Authorization(f.Get("Authorization"))
}

// admit returns the executor of a request, with the rights of its sender.
func (h *Handler) admit(r *http.Request) (*api.Executor, error) {
	guard := h.guard()
	exec, err := guard.Admit(r.Context(), h.exec, presented(r.Header))
	if err == nil || r.URL.RawQuery == "" {
		return exec, err
	}
	key := r.URL.Query().Get("api_key")
	if key == "" {
		return nil, err
	}
	return guard.Admit(r.Context(), h.exec, rights.Credentials{Key: key})
}

func (h *Handler) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	key, text := refusal.Explain(err)
	h.refuse(r, http.StatusUnauthorized, key, text)
	hangUp(w, r)
	if presented(r.Header).Token == "" {
		text += ": send it as X-API-Key: KEY or Authorization: apikey KEY"
	}
	http.Error(w, "Unauthorized: "+text, http.StatusUnauthorized)
}
