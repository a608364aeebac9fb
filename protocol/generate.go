package protocol

// The messages and their encodings are generated from client.proto. To change a message,
// change the schema.

//go:generate go run github.com/gyrohq/gyro/tools/codecgen -schema client.proto -out .
//go:generate go run github.com/gyrohq/gyro/tools/codecgen -schema client.proto -reference client-protocol.md.tmpl -out ../docs
//go:generate go run github.com/gyrohq/gyro/tools/codedoc -template codes.md.tmpl -out ../docs/codes.md codes.go ../server/api/errors.go
