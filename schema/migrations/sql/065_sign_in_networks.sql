-- A network that has signed in to an e-mail address before is not held up by strangers who fail to.

alter table refresh_tokens add column network text not null default '';

comment on column refresh_tokens.network is 'Where the password was shown from when the sign-in began: an IPv4 address or the first 64 bits of an IPv6 address.';
