// Package message has the requests and responses of proxies, with codecs in JSON and
// Protobuf that use no reflection. proxy.proto describes them.
package message
