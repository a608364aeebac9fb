module github.com/gyrohq/gyro/broker/redis

go 1.26

replace github.com/gyrohq/gyro => ../../

require github.com/google/go-cmp v0.7.0
