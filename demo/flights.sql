-- The expected result of the flights pipeline for `records`: fields as text, with coordinates (see recompute.py).

CREATE TABLE ids AS SELECT _row_id FROM records;

CREATE TABLE typed AS
SELECT _row_id, _rescued, _at1::BIGINT AS _at1, _at2, _at3::BIGINT AS _at3, _malformed,
       whole(COLUMNS(['year', 'month', 'day', 'dep_time', 'sched_dep_time', 'dep_delay', 'arr_time', 'sched_arr_time',
                      'arr_delay', 'flight', 'air_time', 'distance', 'hour', 'minute'])),
       instant(COLUMNS(['time_hour', 'published_on'])),
       carrier, tailnum, origin, dest
FROM records;

CREATE TABLE output AS
SELECT _row_id, _at1, _at2, _at3, dep_time,
       strftime(timezone('UTC', time_hour), '%Y%m%dT%HZ') || '-' || carrier || '-' || flight AS flight_id,
       TRY(make_date(year, month, day)) AS day,
       TRY(make_timestamp(year, month, day, sched_dep_time // 100, sched_dep_time % 100, 0.0)) AS local_time,
       timezone('America/New_York', local_time) AS scheduled_at,
       scheduled_at + to_minutes(dep_delay) AS departed_at,
       carrier, flight, tailnum, origin, dest, dep_time IS NULL AS cancelled,
       dep_delay, arr_delay, air_time, distance, published_on, _rescued AS rescued
FROM typed;

CREATE TABLE quarantined AS
SELECT _row_id FROM records AS text JOIN typed USING (_row_id) JOIN output USING (_row_id)
WHERE text._malformed = 'true'
   -- a value of another type
   OR wrong(text.year, typed.year) OR wrong(text.month, typed.month) OR wrong(text.day, typed.day)
   OR wrong(text.dep_time, typed.dep_time) OR wrong(text.sched_dep_time, typed.sched_dep_time)
   OR wrong(text.dep_delay, typed.dep_delay) OR wrong(text.arr_time, typed.arr_time)
   OR wrong(text.sched_arr_time, typed.sched_arr_time) OR wrong(text.arr_delay, typed.arr_delay)
   OR wrong(text.flight, typed.flight) OR wrong(text.air_time, typed.air_time) OR wrong(text.distance, typed.distance)
   OR wrong(text.hour, typed.hour) OR wrong(text.minute, typed.minute)
   OR wrong(text.time_hour, typed.time_hour) OR wrong(text.published_on, typed.published_on)
   -- a missing required field
   OR text.year IS NULL OR text.month IS NULL OR text.day IS NULL OR text.sched_dep_time IS NULL
   OR text.sched_arr_time IS NULL OR text.carrier IS NULL OR text.flight IS NULL OR text.origin IS NULL
   OR text.dest IS NULL OR text.distance IS NULL OR text.time_hour IS NULL OR text.published_on IS NULL
   -- an expectation of severity critical or warning
   OR output.scheduled_at IS NULL OR output.origin NOT IN ('EWR', 'JFK', 'LGA') OR length(output.carrier) <> 2
   OR output.distance <= 0 OR output.distance > 6000 OR output.dep_delay NOT BETWEEN -120 AND 2000
   OR output.air_time NOT BETWEEN 1 AND 1200;

CREATE TABLE filtered AS
SELECT _row_id FROM output
WHERE origin IN ('EWR', 'JFK', 'LGA') AND dest IN ('EWR', 'JFK', 'LGA') AND _row_id NOT IN (FROM quarantined);

CREATE TABLE silver AS
SELECT * EXCLUDE (_at1, _at2, _at3, dep_time, local_time), false AS _deleted FROM output
WHERE _row_id NOT IN (FROM quarantined) AND _row_id NOT IN (FROM filtered)
QUALIFY row_number() OVER (PARTITION BY flight_id ORDER BY published_on DESC, _at1 DESC, _at2 DESC, _at3 DESC) = 1;

CREATE TABLE gold AS
SELECT day, carrier, count(*) AS flights, count(*) FILTER (cancelled) AS cancelled,
       count(*) FILTER (dep_delay >= 15) AS late, avg(dep_delay) AS mean_delay,
       min(dep_delay) FILTER (10 * rank >= 9 * departed) AS p90_delay, max(dep_delay) AS max_delay
FROM (SELECT *, row_number() OVER (PARTITION BY day, carrier, dep_delay IS NULL ORDER BY dep_delay) AS rank,
             count(dep_delay) OVER (PARTITION BY day, carrier) AS departed FROM silver)
GROUP BY ALL;
