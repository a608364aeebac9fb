module github.com/gyrohq/gyro/internal/simulation

go 1.26.0

require (
	github.com/gyrohq/gyro v0.1.0
	github.com/gyrohq/gyro/broker/redis v0.1.0
	github.com/yuin/gopher-lua v1.1.2
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/tidwall/btree v1.8.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
