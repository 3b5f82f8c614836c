#!/bin/sh
# Runs once, when the database's volume is empty: makes the database and the role that owns it. That role is no superuser, so that an error in a
# process that faces the network is not one in the database server. It may make roles because `outlay migrate` makes the one Grafana reads with.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set password `cat "${OUTLAY_DATABASE_PASSWORD_FILE:-/run/secrets/database_password}"`
create role outlay login createrole password :'password';
create database outlay owner outlay;
\connect outlay
create extension if not exists timescaledb;
SQL
