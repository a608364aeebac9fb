// Package docs runs what the documentation says. Every code block of README.md,
// CONTRIBUTING.md and the pages below docs has to say in the rest of its info string, behind the
// language, what the test does with it; a block that says nothing fails the test:
//
//	config          a configuration: the page's server is started with it, or anew
//	checked         a configuration, or a part of one, that gyro checkconfig --strict accepts
//	file=NAME       is kept as a file in the page's folder; blocks of one name are joined
//	run             a program or shell commands that run to their end and must succeed
//	start=PORT      the same, running until the page ends; ready when it listens on PORT
//	output          the output of the program before it (so far, if it was started)
//	output=COMMAND  the same, and gyro COMMAND (checktoken, checksubtoken) accepts it
//	post=PATH       a request to the server API of the page's server, with its API key
//	answer          the answer to the request before it
//	page=URL        the text of a web page that a browser shows sooner or later; with
//	                say="TEXT", after TEXT has been typed into the page and Enter pressed
//	install         names packages; they must be the packages that these tests use
//	figure          nothing to run: a picture, or text that no program reads
//	skip="REASON"   cannot run here
//
// Blocks run in their order, in a folder per page, which also has api.proto and proxy.proto. The ports 8000 (Gyro),
// 10000 (its gRPC API), 8443, 9000, 3000, 3001, 4318 and 6379 stand for free ones, and "…" in an output, an answer or a
// page for anything. Links, keys of the configuration and metrics in the text of pages must exist as well. Blocks that
// a reader need not see are in an HTML comment. JSON is compared as values: a member with the name "…" stands for one
// with any name, and "…": "…" for any further members.
package docs
