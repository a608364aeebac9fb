module github.com/gyrohq/gyro/internal/simulation

go 1.26.0

require (
	github.com/gyrohq/gyro v0.1.0
)
