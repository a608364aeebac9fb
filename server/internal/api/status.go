package api

import (
	"context"

	"github.com/gyrohq/gyro/refusal"
)

// Statuses keeps when users were active and online. Any goroutine may call it. Errors for requests that are not allowed
// wrap ErrBadRequest.
type Statuses interface {
	Update(ctx context.Context, users []string, state string) error
	// Get returns the statuses in the order of the users.
	Get(ctx context.Context, users []string) ([]UserStatus, error)
	Delete(ctx context.Context, users []string) error
}

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
