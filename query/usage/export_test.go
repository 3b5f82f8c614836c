package usage

// ReadRow is readRow, for tests.
var ReadRow = readRow
