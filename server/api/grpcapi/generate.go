package grpcapi

// The client that the tests use is made as users make theirs. The descriptor is for the reflection service.
//
//go:generate go run github.com/gyrohq/gyro/tools/stubgen -schema ../api.proto -out ../../internal -descriptor api.binpb
