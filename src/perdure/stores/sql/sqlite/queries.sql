-- Each statement has a name, a line that says why, and one user in sqlite.py.

-- name: schema_version
-- How far the migrations have come; the table itself is absent in a new file.
select value from meta where name = 'schema'

-- name: has_meta
-- Whether this file was ever migrated.
select count(*) from sqlite_master where type = 'table' and name = 'meta'

-- name: set_schema_version
-- Remember the last migration.
insert into meta (name, value) values ('schema', ?)
on conflict (name) do update set value = excluded.value

-- name: run
-- One run's row, with the columns it is found by for whoever compares them with the log.
select tenant, id, profile, workflow, queue, priority, attempt, trace_id, created_at, deadline,
    state, token, worker, wants_at, version, started_at, finished_at, updated_at, body,
    claim_rank, claim_at, due_at
from runs where tenant = ? and id = ?

-- name: stamps
-- What tells whether somebody else has spoken; many runs, one statement.
select runs.tenant, runs.id, runs.version, runs.token
from json_each(?) as wanted
cross join runs on runs.tenant = wanted.value ->> 0 and runs.id = wanted.value ->> 1

-- name: runs
-- Many rows, one statement.
select tenant, runs.id, profile, workflow, queue, priority, attempt, trace_id, created_at, deadline,
    state, token, worker, wants_at, version, started_at, finished_at, updated_at, body
from json_each(?) as wanted
cross join runs on runs.tenant = wanted.value ->> 0 and runs.id = wanted.value ->> 1

-- name: tails
-- The log's rows after each row's version: what the snapshot does not know yet.
select log.tenant, log.run, log.seq, log.last_seq, log.at, log.was, log.actor, log.command_id,
    log.events
from json_each(?) as wanted
cross join log on log.tenant = wanted.value ->> 0 and log.run = wanted.value ->> 1
    and log.seq > wanted.value ->> 2
order by log.tenant, log.run, log.seq

-- name: claimable
-- The first runs of one workflow in claim order, with their inputs. Names every leading column of
-- the index, so the backlog is never sorted.
select runs.tenant, runs.id, profile, workflow, queue, priority, attempt, trace_id, created_at,
    deadline, state, token, worker, wants_at, version, started_at, finished_at, updated_at, body,
    run_data.input
from runs indexed by runs_claimable
cross join run_data on run_data.tenant = runs.tenant and run_data.run = runs.id
where queue = ? and workflow = ? and claim_rank = ? and claim_at is not null and claim_at <= ?
order by claim_at

-- name: next_rank
-- The next rank in which a workflow has runs that want a worker, now or later: one seek.
select claim_rank from runs indexed by runs_claimable
where queue = ? and workflow = ? and claim_rank > ? and claim_at is not null
order by claim_rank limit 1

-- name: due
-- Runs that time alone changes.
select tenant, id from runs indexed by runs_due
where due_at is not null and due_at <= ? order by due_at limit ?

-- name: held_by
-- The runs a worker holds.
select tenant, id from runs indexed by runs_held where worker = ?

-- name: nudged
-- A worker's runs to which another process has spoken.
select tenant, id from runs indexed by runs_nudged where worker = ? and nudged = 1

-- name: insert_run
-- A new run.
insert into runs (
    state, token, worker, wants_at, claim_rank, claim_at, due_at, nudged, version, started_at,
    finished_at, updated_at, body, tenant, id, profile, workflow, queue, priority, attempt,
    trace_id, created_at, deadline
) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_run
-- The row as the fold has it; a row of another version is not touched, which the caller notices.
update runs set state = ?, token = ?, worker = ?, wants_at = ?, claim_rank = ?, claim_at = ?,
    due_at = ?, nudged = ?, version = ?, started_at = ?, finished_at = ?, updated_at = ?, body = ?
where tenant = ? and id = ? and version = ?

-- name: insert_log
-- What happened. The key refuses a second append from the same present.
insert into log (tenant, run, seq, last_seq, at, was, actor, command_id, events)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_input
-- A new run's input.
insert into run_data (tenant, run, input) values (?, ?, ?)

-- name: set_outcome
-- A run's result or error, when it ends.
update run_data set result = ?, error = ? where tenant = ? and run = ?

-- name: taken_keys
-- Those of the keys that somebody has; many keys, one statement.
select keys.tenant, keys.kind, keys.scope, keys.key, keys.run, keys.digest
from json_each(?) as wanted
cross join keys on keys.tenant = wanted.value ->> 0 and keys.kind = wanted.value ->> 1
    and keys.scope = wanted.value ->> 2 and keys.key = wanted.value ->> 3

-- name: insert_key
-- A key is taken for good.
insert into keys (tenant, kind, scope, key, run, digest) values (?, ?, ?, ?, ?, ?)

-- name: register
-- A worker begins. Its name is fresh: one that was found dead never comes back under it.
insert into workers (worker, name, host, pid, started_at, lease_until)
values (?, ?, ?, ?, ?, ?)

-- name: beat
-- A worker renews its lease. One that was found dead has no row any more, or a dead one.
update workers set lease_until = ? where worker = ? and dead = 0

-- name: alive
-- Whether a worker may claim: what it held would never be freed if it had no row.
select 1 from workers where worker = ? and dead = 0

-- name: bury
-- A worker left, or was found dead.
update workers set dead = 1, lease_until = 0 where worker = ?

-- name: drop_worker
-- A dead worker that holds nothing needs no row.
delete from workers where worker = ? and dead = 1
    and not exists (select 1 from runs indexed by runs_held where runs.worker = workers.worker)

-- name: workers
-- All workers.
select worker, name, host, pid, started_at, lease_until, dead from workers order by started_at

-- name: entries
-- A run's log from the row that holds the event after a number, in order. Sought from the last row
-- that begins no later than that event, so that a long log is not read from its start each time.
select tenant, run, seq, last_seq, at, was, actor, command_id, events
from log where tenant = :tenant and run = :run and last_seq > :after and seq >= (
    select coalesce(max(seq), 0) from log
    where tenant = :tenant and run = :run and seq <= :after + 1
)
order by seq limit :limit

-- name: payloads
-- A run's payloads.
select input, result, error from run_data where tenant = ? and run = ?

-- name: listing
-- A page of runs, newest id first.
select tenant, id, profile, workflow, queue, priority, attempt, trace_id, created_at, deadline,
    state, token, worker, wants_at, version, started_at, finished_at, updated_at, body
from runs where tenant = :tenant and id < :before
    and (:states is null or state in (select value from json_each(:states)))
order by id desc limit :limit
