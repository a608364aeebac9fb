module github.com/gyrohq/gyro/broker/redis

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	github.com/gyrohq/gyro v0.1.0
	github.com/redis/rueidis v1.0.79
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/tidwall/btree v1.8.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
