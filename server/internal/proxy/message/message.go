// Package message has the requests and responses of proxies (proxy.proto), with JSON and Protobuf codecs without
// reflection.
package message
