// Package message has the requests and responses of proxies, with codecs in JSON and
// Protobuf that use no reflection. proxy.proto describes them.
package message

//go:generate go run github.com/gyrohq/gyro/tools/codecgen -schema proxy.proto -package message -elements 65536 -service=false -out .

// The backends of the tests are made as users make theirs.
//
//go:generate go run github.com/gyrohq/gyro/tools/stubgen -schema proxy.proto -out ../../internal
