// Package redis is the engine of many nodes on Redis, Valkey and what speaks like
// them (engines.md section 8): a broker with history, a presence manager, and the
// carrier of control messages. Keys and payloads are those of Centrifugo 6, so
// that nodes of both can share one Redis.
package redis
