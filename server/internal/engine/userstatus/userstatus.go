// Package userstatus keeps when users were active and online last (docs/user-status.md).
package userstatus

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
)

const (
	// In bytes, but MaxUsers.
	MaxUsers, MaxUser, MaxState = 1_000, 1_024, 1_024
)

// Errors for requests beyond a limit.
var (
	errUsers = refusal.Because(api.ErrBadRequest, "", "the number of users is not from 1 to 1000")
	errUser  = refusal.Because(api.ErrBadRequest, "", "the ID of a user is empty, or has more than 1024 bytes")
	errState = refusal.Because(api.ErrBadRequest, "", "the state has more than 1024 bytes")
)

var errNobody = refusal.Because(protocol.ErrorBadRequest, "", "the client is anonymous, or the ID of its user has more than 1024 bytes")

func check(users []string) error {
	if len(users) == 0 || len(users) > MaxUsers {
		return errUsers
	}
	for _, user := range users {
		if user == "" || len(user) > MaxUser {
			return errUser
		}
	}
	return nil
}

// Status of a user.
type Status struct {
	// Active is the last activity, Online when the user had a connection last, in Unix seconds; 0 if it is not known.
	Active, Online int64
	State          string
}

// merge adds a later status of a user. Times do not go back.
func (s *Status) merge(later Status) {
	s.Active, s.Online = max(s.Active, later.Active), max(s.Online, later.Online)
	if later.State != "" {
		s.State = later.State
	}
}

// Store keeps the status of users, and forgets a user after the expire interval without an update. Any goroutine may
// call its methods between Start and Close. A call may have the same user more than once.
type Store interface {
	// Start connects to the storage. An error names the key.
	Start(ctx context.Context) error
	Close()
	// Update merges a status into the status of users: times do not go back, and an empty State changes nothing. With an
	// error, some users may be updated.
	Update(ctx context.Context, users []string, s Status) error
	// Get returns a status for each user, in their order; the zero value for unknown ones.
	Get(ctx context.Context, users []string) ([]Status, error)
	Delete(ctx context.Context, users []string) error
}

func now() int64 { return time.Now().Unix() }
