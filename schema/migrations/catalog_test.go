package migrations_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// What TimescaleDB numbers as it likes is blotted out.
const selectCatalog = `
with ours as (
    select c.oid, c.relname, c.relkind, n.nspname
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('public', 'report')
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
), line as (
    select format('relation %s.%s %s: %s', nspname, relname, relkind, obj_description(oid, 'pg_class')) as line
    from ours where relkind in ('r', 'v')
    union all
    select format('column %s.%s.%s %s null=%s default=%s: %s', o.nspname, o.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  not a.attnotnull, pg_get_expr(d.adbin, d.adrelid), col_description(o.oid, a.attnum))
    from ours o
    join pg_attribute a on a.attrelid = o.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where o.relkind in ('r', 'v')
    union all
    select format('view %s.%s %s', nspname, relname, pg_get_viewdef(oid)) from ours where relkind = 'v'
    union all
    select format('constraint %s %s %s', o.relname, c.conname, pg_get_constraintdef(c.oid))
    from ours o join pg_constraint c on c.conrelid = o.oid
    union all
    select format('index %s', pg_get_indexdef(oid)) from ours where relkind = 'i'
    union all
    select format('trigger %s', pg_get_triggerdef(t.oid))
    from ours o join pg_trigger t on t.tgrelid = o.oid where not t.tgisinternal
    union all
    select format('function %s: %s', pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'))
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('public', 'report') and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
)
select regexp_replace(line, '_hypertable_\d+|cagg_watermark\(\d+\)', '_N', 'g') as line from line order by 1`

// A job starts so long after a full hour; which hour depends on when it was made.
const selectJobs = `
select format('job %s %s every %s from %s retry %s %s', proc_name, hypertable_name, schedule_interval, initial_start - date_trunc('hour', initial_start), retry_period,
              config - 'hypertable_id' - 'mat_hypertable_id') as line
from timescaledb_information.jobs
where job_id >= 1000
union all
select format('dimension %s %s', case when hypertable_schema = 'public' then hypertable_name end, time_interval)
from timescaledb_information.dimensions
union all
select format('columnstore %s %s', segmentby, orderby) from timescaledb_information.hypertable_columnstore_settings
order by 1`

// catalog describes all that the migrations have made in a database, line by line.
func catalog(t *testing.T, conn *pgx.Conn, e migrations.Edition) []string {
	t.Helper()
	lines := column[string](t, conn, selectCatalog)
	if e == migrations.Community {
		lines = append(lines, column[string](t, conn, selectJobs)...)
	}
	return lines
}

const selectColumns = `
select format('%s.%s %s %s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod)) as line
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where n.nspname in ('public', 'report') and c.relkind in ('r', 'v')
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by n.nspname, c.relname, a.attnum`

// Every query is written once: the editions have the same relations, columns and types.
func TestEditionsHaveTheSameColumns(t *testing.T) {
	t.Parallel()
	want := column[string](t, connect(t, schematest.DatabaseOf(t, migrations.Plain)), selectColumns)
	if len(want) == 0 {
		t.Fatal("the plain edition has no columns")
	}
	for _, e := range []migrations.Edition{migrations.Apache, migrations.Community} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			got := column[string](t, connect(t, schematest.DatabaseOf(t, e)), selectColumns)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("columns of plain (-) and %s (+) differ:\n%s", e, diff)
			}
		})
	}
}
