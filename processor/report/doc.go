// Package report makes the reports that accounts ask for or that their schedules are due for: it reads the figures of a period
// into a Statement, in one snapshot, draws it as a PDF, writes it as CSV, keeps both, and has them sent. The same rows and the
// same request give the same bytes. Whatever a client has named an agent, the document is readable and its cells are harmless.
// The figures are those that the query tier answers: a test holds both to each other.
package report
