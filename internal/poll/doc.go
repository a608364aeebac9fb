// Package poll tells a loop which of its sockets are ready (epoll on Linux).
package poll
