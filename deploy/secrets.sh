#!/bin/sh
# Makes the secrets that docker-compose.yml mounts. What is there already is kept, so it can be run again after an update that needs one more.
# Only this folder's owner can enter it. The files in it can be read by anyone who can, because containers read them under users of their own.
set -eu
dir=${1:-$(dirname "$0")/secrets}
mkdir -p "$dir"
chmod 700 "$dir"
cd "$dir"
umask 022

# random writes n bytes as hexadecimal digits: safe in a URL, in SQL and in YAML.
random() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

# keep NAME writes standard input to NAME, unless it is there; all of it or nothing.
keep() {
    if [ -e "$1" ]; then cat >/dev/null; return; fi
    cat >"$1.new"
    mv "$1.new" "$1"
    echo "made $dir/$1"
}

random 24 | keep postgres_password
random 24 | keep database_password
random 24 | keep grafana_database_password
random 12 | keep grafana_admin_password
# The mail server's password, where it asks for one, is written into this file by hand.
: | keep smtp_password
# What encrypts signing secrets in the database: later lines are older keys, which decrypt only.
random 32 | keep secrets_key
printf 'postgres://outlay:%s@timescaledb:5432/outlay?sslmode=disable' "$(cat database_password)" | keep database_url
# Each tier signs in as a role that may do only what it needs; `outlay migrate` makes them with these passwords.
for tier in ingest processor query; do
    random 24 | keep "${tier}_database_password"
    printf 'postgres://outlay_%s:%s@timescaledb:5432/outlay?sslmode=disable' "$tier" "$(cat "${tier}_database_password")" | keep "${tier}_database_url"
done

# An Ed25519 key as PKCS #8: a fixed head of 16 bytes and then the key itself.
{
    echo '-----BEGIN PRIVATE KEY-----'
    { printf '\060\056\002\001\000\060\005\006\003\053\145\160\004\042\004\040'; head -c 32 /dev/urandom; } | base64
    echo '-----END PRIVATE KEY-----'
} | keep jwt_key.pem
