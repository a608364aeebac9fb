module github.com/gyrohq/gyro/internal/simulation

go 1.26.0

require (
	github.com/gyrohq/gyro v0.1.0
	github.com/gyrohq/gyro/broker/redis v0.1.0
	github.com/yuin/gopher-lua v1.1.2
)
