package main

// What --help prints of a command below its one line: an example that can be copied,
// what the command leaves behind, and what to do next.

// Help describes outlay up.
func (*upCommand) Help() string {
	return `  outlay up

The first start makes an account, a user and an API key, prints them once and
writes them to credentials.json in --data-dir. The dashboard is at the address of
--listen. Nothing else needs to be installed, and ctrl-C stops everything; the
data stays.`
}

// Help describes outlay ingest.
func (*ingestCommand) Help() string {
	return `  outlay ingest --kafka-brokers=kafka:9092 --listen=0.0.0.0:8080 \
      --database-url=postgres://outlay:secret@db:5432/outlay

Run outlay migrate first. Any number of replicas may run behind a load balancer;
caps and rate limits hold over all of them. Clients send to POST /v1/track with an
API key; see outlay account create. SIGTERM lets the requests under way finish.`
}

// Help describes outlay processor.
func (*processorCommand) Help() string {
	return `  outlay processor --kafka-brokers=kafka:9092 \
      --database-url=postgres://outlay:secret@db:5432/outlay

Run outlay migrate first. Replicas share the partitions of the topic. A killed one
loses nothing and stores nothing twice. It also checks alert rules, sends messages
and makes reports.`
}

// Help describes outlay query.
func (*queryCommand) Help() string {
	return `  openssl genpkey -algorithm ed25519 -out jwt.pem
  outlay query --jwt-key-file=jwt.pem --listen=0.0.0.0:8080 \
      --database-url=postgres://outlay:secret@db:5432/outlay

Run outlay migrate first. Users sign in at POST /v1/auth/login; see outlay user
create. The documentation of every endpoint is at /docs.`
}

// Help describes outlay migrate.
func (*migrateCommand) Help() string {
	return `  outlay migrate --kafka-brokers=kafka:9092 --kafka-replication=3 \
      --database-url=postgres://outlay:secret@db:5432/outlay

Run it before the tiers are started, and before a new version is. It may run
several times, also at once. Then create an account: outlay account create.`
}

// Help describes outlay account create.
func (*accountCreateCommand) Help() string {
	return `  outlay account create --name=Acme --email=owner@example.com \
      --database-url=postgres://outlay:secret@db:5432/outlay

Prints the id of the account, the password of its owner and an API key. Password
and key are shown only now. Further keys: outlay key create.`
}

// Help describes outlay account plan.
func (*accountPlanCommand) Help() string {
	return `  outlay account plan acc_01jd0000000000000000000000 --plan=pro \
      --database-url=postgres://outlay:secret@db:5432/outlay

The limits of the plan hold on every replica within a second. The account's audit log
has a line about it.`
}

// Help describes outlay user create.
func (*userCreateCommand) Help() string {
	return `  outlay user create --account=acc_01jd0000000000000000000000 \
      --email=finance@example.com --role=viewer \
      --database-url=postgres://outlay:secret@db:5432/outlay

A viewer reads; an admin also manages budgets, alerts, reports, API keys and
prices; an owner also manages users.`
}

// Help describes outlay user disable.
func (*userDisableCommand) Help() string {
	return `  outlay user disable former@example.com --account=acc_01jd0000000000000000000000 \
      --database-url=postgres://outlay:secret@db:5432/outlay

The account's audit log has a line about it.`
}

// Help describes outlay user password.
func (*userPasswordCommand) Help() string {
	return `  outlay user password owner@example.com --account=acc_01jd0000000000000000000000 \
      --database-url=postgres://outlay:secret@db:5432/outlay

Prints the password, which is shown only now. The account's audit log has a line
about the change, without the password.`
}

// Help describes outlay key create.
func (*keyCreateCommand) Help() string {
	return `  outlay key create --account=acc_01jd0000000000000000000000 --name=fleet \
      --database-url=postgres://outlay:secret@db:5432/outlay

Agents send the key in the header Authorization: Bearer outlay_live_…`
}

// Help describes outlay key rotate.
func (*keyRotateCommand) Help() string {
	return `  outlay key rotate key_01jd0000000000000000000000 --grace=24h \
      --account=acc_01jd0000000000000000000000 \
      --database-url=postgres://outlay:secret@db:5432/outlay

The new key has the name, scopes and agents of the old one, and is shown only now. The
ids are those of outlay key list.`
}

// Help describes outlay key revoke.
func (*keyRevokeCommand) Help() string {
	return `  outlay key revoke key_01jd0000000000000000000000 \
      --account=acc_01jd0000000000000000000000 \
      --database-url=postgres://outlay:secret@db:5432/outlay

The ids are those of outlay key list.`
}

// Help describes outlay load.
func (*loadCommand) Help() string {
	return `  outlay load --events=100000 --rate=2000

Sends to a running server, waits until everything is stored and compares number and
cost of the stored events with what was acknowledged. It ends with 1 on any
difference. The events stay: do not run it on an account that matters. Without
outlay up, write the file of --credentials yourself:
{"base_url":"…","api_key":"…","email":"…","password":"…"}`
}

// Help describes outlay check.
func (*checkCommand) Help() string {
	return `  outlay check --kafka-brokers=kafka:9092 \
      --database-url=postgres://outlay:secret@db:5432/outlay

Prints a line for each thing it looked at, and ends with 1 if one is not in order.
It changes nothing.`
}

// Help describes outlay health.
func (*healthCommand) Help() string {
	return `  outlay health --ops-listen=127.0.0.1:9090

Prints nothing and exits with 0 when the process is ready; else it prints what is not
and ends with 1. Run outlay check to look at a whole installation.`
}
