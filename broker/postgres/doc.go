// Package postgres is the engine on PostgreSQL (docs/postgres.md): a broker with history and maps, and a controller.
// Applications publish in their own transactions, by SQL functions. Tables and functions have the form of Centrifugo 6.
package postgres
