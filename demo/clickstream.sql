-- The expected result of the clickstream pipeline for `records`: fields as text, with coordinates (see recompute.py).

CREATE TABLE ids AS SELECT _row_id FROM records;

CREATE TABLE output AS
SELECT _row_id, _at1::BIGINT AS _at1, _at2::BIGINT AS _at2, _at3::BIGINT AS _at3, agent,
       event_id, whole(sequence) AS sequence, kind, instant(occurred_at) AS occurred_at,
       user_id, lower(split_part(page, '?', 1)) AS page, whole(duration_ms) / 1000 AS seconds,
       _rescued AS rescued, coalesce(kind = 'delete', false) AS _deleted
FROM records;

CREATE TABLE quarantined AS
SELECT _row_id FROM records AS text JOIN output USING (_row_id)
WHERE text._malformed = 'true'
   -- a value of another type
   OR wrong(text.sequence, output.sequence) OR wrong(text.occurred_at, output.occurred_at)
   OR wrong(text.duration_ms, output.seconds)
   -- a missing required field
   OR text.event_id IS NULL OR text.sequence IS NULL OR text.kind IS NULL
   -- an expectation of severity critical or warning
   OR output.kind NOT IN ('view', 'delete') OR output.seconds NOT BETWEEN 0 AND 86400 OR NOT starts_with(output.page, '/')
   OR (output.kind = 'view' AND (output.page IS NULL OR output.occurred_at IS NULL OR output.user_id IS NULL));

CREATE TABLE filtered AS SELECT _row_id FROM output WHERE agent = 'uptime-probe' AND _row_id NOT IN (FROM quarantined);

CREATE TABLE silver AS
SELECT * EXCLUDE (_at1, _at2, _at3, agent) FROM output
WHERE _row_id NOT IN (FROM quarantined) AND _row_id NOT IN (FROM filtered)
QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY sequence DESC, _at1 DESC, _at2 DESC, _at3 DESC) = 1;

CREATE TABLE gold AS
SELECT page, date_trunc('hour', occurred_at) AS window_start, count(*) AS views, count(DISTINCT user_id) AS users,
       max(seconds) AS longest_stay
FROM silver WHERE NOT _deleted GROUP BY ALL;

CREATE TABLE sessions AS
WITH views AS (
    SELECT *, coalesce(occurred_at - lag(occurred_at) OVER of_user > INTERVAL 30 MINUTE, true) AS begins
    FROM silver WHERE NOT _deleted WINDOW of_user AS (PARTITION BY user_id ORDER BY occurred_at, event_id)
), numbered AS (
    SELECT *, count_if(begins) OVER (PARTITION BY user_id ORDER BY occurred_at, event_id) AS session FROM views
)
SELECT user_id, min(occurred_at) AS started_at, max(occurred_at) AS ended_at, count(*) AS pages,
       (epoch_us(max(occurred_at)) - epoch_us(min(occurred_at))) / 1000000 AS seconds, count(*) = 1 AS bounce
FROM numbered GROUP BY user_id, session;
