// Package repository has tests of the files of the repository for its public home and for editors: workflows, forms,
// dependency updates, attributes of files.
package repository
