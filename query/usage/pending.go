package usage

// pendingSessions are the sessions of an account ($1) that batches added to since
// the last were folded, each with all that it adds up to. Together with the rows of
// sessions that have nothingPending they are every session that a client named,
// exactly as of the snapshot. Of what a session was before a client named it only those
// are asked whose id is as long as ours: implicit_start answers no others, but each call
// of it takes a fiftieth of a millisecond.
const pendingSessions = `
	WITH part AS MATERIALIZED (
		SELECT session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
		FROM session_parts WHERE account_id = $1
	), settled AS (
		SELECT session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
		FROM sessions WHERE account_id = $1 AND session_id IN (SELECT session_id FROM part)
	), begun AS (
		SELECT p.session_id, i.agents, i.users, i.events, i.errors, i.input_tokens, i.output_tokens, i.cost_nano_usd, i.started_at, i.ended_at
		FROM (SELECT session_id, min(started_at) AS started_at FROM part WHERE length(session_id) = 30 GROUP BY session_id) AS p
		CROSS JOIN LATERAL implicit_start($1, p.session_id, p.started_at) AS i
		WHERE NOT EXISTS (SELECT FROM settled s WHERE s.session_id = p.session_id)
	), every AS MATERIALIZED (
		SELECT * FROM part UNION ALL SELECT * FROM settled UNION ALL SELECT * FROM begun
	)
	SELECT session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM (
		SELECT session_id, sum(events)::bigint AS events, sum(errors)::bigint AS errors, sum(input_tokens) AS input_tokens,
			sum(output_tokens) AS output_tokens, sum(cost_nano_usd) AS cost_nano_usd, min(started_at) AS started_at, max(ended_at) AS ended_at
		FROM every GROUP BY session_id
	) AS sums JOIN (
		SELECT session_id, (array_agg(DISTINCT agent ORDER BY agent) FILTER (WHERE agent IS NOT NULL))[1:100] AS agents,
			(array_agg(DISTINCT user_id ORDER BY user_id) FILTER (WHERE user_id IS NOT NULL))[1:100] AS users
		FROM every, unnest(agents, users) AS n (agent, user_id) GROUP BY session_id
	) AS names USING (session_id)`

// nothingPending holds for a row s of sessions that is all there is of its session.
// NOT IN is looked up in a hash, whatever the plan: for NOT EXISTS a plan that is made
// for any account compares each session with each that is pending.
const nothingPending = `
	s.session_id NOT IN (SELECT session_id FROM pending)`

// overlapping are the sessions s of sessions with an event of $2 or later that began
// before $3, found length by length, so that those of long ago are not looked at.
const overlapping = `
	generate_series(0, 4) AS lengths (of)
	CROSS JOIN LATERAL (
		SELECT session_id, agents FROM sessions
		WHERE account_id = $1 AND length = lengths.of AND started_at > $2::timestamptz - longest_session(lengths.of)
			AND started_at < $3 AND ended_at >= $2
	) AS s`
