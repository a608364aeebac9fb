package metrics

// UserStatus exports the calls to the storage of user status. The owner calls the function after each.
func (r *Registry) UserStatus() func(kind string, users int, err error) {
	calls := r.counters("user_status", "calls_total", "Calls to the storage of user status.", "kind", "result")
	users := r.counters("user_status", "users_total", "Users in calls to the storage of user status.", "kind")
	return func(kind string, n int, err error) {
		result := "ok"
		if err != nil {
			result = "error"
		}
		calls.WithLabelValues(kind, result).Inc()
		users.WithLabelValues(kind).Add(float64(n))
	}
}
