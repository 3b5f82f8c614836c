// Package pricing knows which price book each account is charged by: the published prices, built in or read anew from
// a file or an address, with the account's own in front. All of it is held in memory, so that events are priced while
// the database is away; a change of an override is obeyed within a second. A new book is taken whole or not at all, and
// not without approval when it looks like a mistake.
package pricing
