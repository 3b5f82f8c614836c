coalesce((
        select _timescaledb_functions.to_timestamp(w.watermark)
        from _timescaledb_catalog.continuous_agg a join _timescaledb_catalog.continuous_aggs_watermark w using (mat_hypertable_id)
        where a.user_view_schema = 'aggregates' and a.user_view_name = '{{ . }}'), '-infinity')