package pricing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/price"
)

// lastTimeout bounds how long a start waits for the prices that held last: they may be had without.
const lastTimeout = 3 * time.Second

const selectLast = `SELECT catalogue FROM price_books WHERE taken_at IS NOT NULL ORDER BY taken_at DESC LIMIT 1`

// recall puts the catalogue in force that was so last, before the restart, so that a source that cannot be read changes nothing,
// and one that can is compared with it.
func (b *Books) recall(ctx context.Context) {
	if b.pool == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	var text []byte
	err := b.pool.QueryRow(ctx, selectLast).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return
	}
	var book *price.Book
	if err == nil {
		book, err = price.Parse(text)
	}
	if err != nil {
		b.log.WarnContext(ctx, "the prices that held last are not known, the built-in ones hold until others are read", "error", err)
		return
	}
	digest := sha256.Sum256(text)
	b.source.taken = hex.EncodeToString(digest[:])
	b.replace(book)
	b.log.InfoContext(ctx, "the prices that held last are in force", "sha256", b.source.taken)
}

const upsertLast = `
INSERT INTO price_books (sha256, catalogue, taken_at) VALUES ($1, $2, now())
ON CONFLICT (sha256) DO UPDATE SET taken_at = excluded.taken_at`

// remember keeps a catalogue for recall.
func (b *Books) remember(ctx context.Context, book *price.Book) error {
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	sum := sha256.Sum256(book.Catalogue())
	if _, err := b.pool.Exec(ctx, upsertLast, sum[:], book.Catalogue()); err != nil {
		return fmt.Errorf("keep the prices: %w", err)
	}
	return nil
}
