// Package redis is the engine on Redis, Valkey and compatible servers (docs/engines.md): a broker with history, a presence
// manager and a controller. Keys and payloads have the form of Centrifugo 6, so that nodes of both can share one Redis with
// the same prefix.
package redis
