package protocol

// The messages and both of their encodings are generated from client.proto, which
// follows client-protocol.md section 4. To change a message, change the schema.

//go:generate go run github.com/gyrohq/gyro/tools/codecgen -schema client.proto -out .
