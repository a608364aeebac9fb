package api

import (
	"context"

	"github.com/gyrohq/gyro/refusal"
)

// Statuses keeps the times at which users were last active and online. Its methods may be called from any goroutine.
// Errors for a request that is not allowed wrap ErrBadRequest.
type Statuses interface {
	Update(ctx context.Context, users []string, state string) error
	// Get returns a status for each user, in their order.
	Get(ctx context.Context, users []string) ([]UserStatus, error)
	Delete(ctx context.Context, users []string) error
}

// errStatusOff is the answer of a server without Statuses.
var errStatusOff = refusal.Because(ErrNotAvailable, "user_status.enabled", "user_status.enabled is off")

// UpdateUserStatus executes an update_user_status command.
func (e *Executor) UpdateUserStatus(ctx context.Context, r *UpdateUserStatusRequest) (*UpdateUserStatusResult, error) {
	err := errStatusOff
	if e.statuses != nil {
		err = e.statuses.Update(ctx, r.Users, r.State)
	}
	if err != nil {
		return nil, e.failed(ctx, MethodUpdateUserStatus, "", err)
	}
	return &UpdateUserStatusResult{}, nil
}

// GetUserStatus executes a get_user_status command.
func (e *Executor) GetUserStatus(ctx context.Context, r *GetUserStatusRequest) (*GetUserStatusResult, error) {
	if e.statuses == nil {
		return nil, e.failed(ctx, MethodGetUserStatus, "", errStatusOff)
	}
	list, err := e.statuses.Get(ctx, r.Users)
	if err != nil {
		return nil, e.failed(ctx, MethodGetUserStatus, "", err)
	}
	return &GetUserStatusResult{Statuses: list}, nil
}

// DeleteUserStatus executes a delete_user_status command.
func (e *Executor) DeleteUserStatus(ctx context.Context, r *DeleteUserStatusRequest) (*DeleteUserStatusResult, error) {
	err := errStatusOff
	if e.statuses != nil {
		err = e.statuses.Delete(ctx, r.Users)
	}
	if err != nil {
		return nil, e.failed(ctx, MethodDeleteUserStatus, "", err)
	}
	return &DeleteUserStatusResult{}, nil
}
