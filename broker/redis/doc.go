// Package redis is the engine on Redis, Valkey and compatible servers (docs/engines.md): a
// broker with history, a presence manager and a controller. Keys and payloads are those of
// Centrifugo 6, so that nodes of both can share one Redis if they have the same prefix.
package redis
