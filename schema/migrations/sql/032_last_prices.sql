-- Ingest forgot at a restart which published prices had been in force, and charged by the built-in ones until the file or the
-- address answered again; and what it then read was compared with those. Now it knows the last good ones.

alter table price_books add column taken_at timestamptz;

comment on table price_books is 'Price catalogues that were in force, or that events were repriced with, each once.';
comment on column price_books.taken_at is 'When a replica of ingest last put it in force, read from a file or an address; null: never.';
