// Package repository has tests of what the repository has for its public home and for editors: workflows, forms,
// dependency updates, attributes of files.
package repository
