package unigrpc

// The client that the tests use is made as users make theirs.
//
//go:generate go run github.com/gyrohq/gyro/tools/stubgen -schema unistream.proto -out ../internal
