package protocol

// The messages and their encodings are generated from client.proto (tools/generate). To change a message,
// change the schema and run make generate.
